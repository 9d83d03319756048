// Runs programs on a machine with its memory, and on each of its mutants, up to the first result
// that a test would find wrong. What the bench of the machine does is done here in short.
//
// Arguments: numbers of mutants as a list; then the folder of each job, with memory_in.hex and
// job.txt: fewest cycles of memory's latency and how many more, pauses, seed, where memory begins,
// number of runs; and for each run program, length, base, 1 if it is started twice, cycles to a reset
// and to another one, or 0, 1 if it waits for a burst of writes, cycles of a reset by the pin, or 0 for
// a soft reset, and from where to where memory answers errors. A line is printed for a mutant that a
// job kills: "mutant job clock 0"; and "mutant job clock 1" for one that takes as long as without it
// and counts other cycles of waiting, of which tests know how many there are at least.
#include "design.h"
#include "machine.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

static const uint64_t PATIENCE = 4096;  // cycles without an answer after which none comes

struct Run {
    uint64_t program, length, base, again, reset_after, reset_again, in_burst, pin_clocks, errors_from,
        errors_to;
};

struct Job {
    std::string folder;
    uint64_t latency, spread, pause, seed, start;
    std::vector<Run> runs;
};

struct Result {
    bool stuck = false, failed = false;
    uint64_t clocks = 0;
    std::vector<uint64_t> took;    // cycles of each run
    std::vector<uint64_t> values;  // what tests look at
    std::vector<uint32_t> waits;   // as the machine counts them
    std::string memory;
};

struct Stuck {};

static Job read_job(const char* folder) {
    Job job{folder};
    std::ifstream file(job.folder + "/job.txt");
    size_t runs = 0;
    file >> job.latency >> job.spread >> job.pause >> job.seed >> job.start >> runs;
    for (Run run; runs-- && file >> run.program >> run.length >> run.base >> run.again >>
                                run.reset_after >> run.reset_again >> run.in_burst >>
                                run.pin_clocks >> run.errors_from >> run.errors_to;)
        job.runs.push_back(run);
    if (!file) std::exit(2);
    return job;
}

class Machine {
public:
    uint64_t clocks = 0;

    explicit Machine(const Job& job) {
        top->clk = 0;
        top->latency = job.latency;
        top->spread = job.spread;
        top->pause = job.pause;
        top->seed = job.seed;
        top->start = job.start;
        top->rst = 1;
        clock(5);
        top->load = 1;
        clock();
        top->load = 0;
        top->rst = 0;
    }

    void clock(uint64_t count = 1) {
        for (; count; --count, ++clocks) {
            top->eval();
            top->clk = 1;
            top->eval();
            top->clk = 0;
            top->eval();
        }
    }

    void write(uint32_t address, uint32_t value, uint32_t strobes = 0xF) {
        const uint64_t since = clocks;
        top->s_axi_awaddr = address;
        top->s_axi_wdata = value;
        top->s_axi_wstrb = strobes;
        top->s_axi_awvalid = top->s_axi_wvalid = 1;
        do {
            top->eval();
            const bool address_taken = top->s_axi_awready, value_taken = top->s_axi_wready;
            step(since);
            if (address_taken) top->s_axi_awvalid = 0;
            if (value_taken) top->s_axi_wvalid = 0;
            top->eval();
        } while (!top->s_axi_bvalid || top->s_axi_awvalid || top->s_axi_wvalid);
        // The answer waits until it is taken, and comes once.
        clock();
        if (!top->s_axi_bvalid || top->s_axi_bresp) throw Stuck();
        top->s_axi_bready = 1;
        clock();
        if (top->s_axi_bvalid) throw Stuck();
        top->s_axi_bready = 0;
        clock();
    }

    void write_both(uint32_t address, uint64_t value) {
        write(address, value);
        write(address + 4, value >> 32);
    }

    uint32_t read(uint32_t address) {
        // Twice, the second time before the first answer is taken.
        const uint64_t since = clocks;
        uint32_t value = 0;
        top->s_axi_araddr = address;
        for (int asked = 0, answers = 0; answers < 2;) {
            top->s_axi_arvalid = asked < 2;
            top->s_axi_rready = (clocks - since) % 4 == 3;
            top->eval();
            asked += top->s_axi_arvalid && top->s_axi_arready;
            if (top->s_axi_rready && top->s_axi_rvalid) {
                if (top->s_axi_rresp) throw Stuck();
                value = top->s_axi_rdata;
                ++answers;
            }
            step(since);
        }
        top->s_axi_arvalid = top->s_axi_rready = 0;
        return value;
    }

    // Whether a program ends within so many cycles; one that breaks a rule of the bus does not.
    bool ends(uint64_t within) {
        for (; within && !top->irq && !top->broken; --within) clock();
        return top->irq;
    }

    // Whether it ends before it is in a burst of writes.
    bool ends_before_burst(uint64_t within) {
        for (; within && !top->irq && !top->broken && !top->in_burst; --within) clock();
        return top->irq;
    }

    void reset(const Run& run) {
        if (run.pin_clocks) {
            top->rst = 1;
            clock(run.pin_clocks);
            top->rst = 0;
            clock();
            return;
        }
        write(CONTROL, 2);
        if (run.reset_again) {
            clock(run.reset_again);
            write(CONTROL, 2);
        }
        for (int tries = 100; tries && read(STATUS); --tries) clock(16);
    }

    const std::unique_ptr<VerilatedContext> context = std::make_unique<VerilatedContext>();
    const Design top{new Vtop(context.get())};

private:
    void step(uint64_t since) {
        clock();
        if (clocks - since > PATIENCE) throw Stuck();
    }
};

// What comes of a job; with a right result, up to the first value that is another one.
static Result run_job(const Job& job, const Result* right) {
    Result result;
    if (chdir(job.folder.c_str())) std::exit(2);
    Machine machine(job);
    const auto see = [&](uint64_t value) {
        result.values.push_back(value);
        const size_t at = result.values.size() - 1;
        if (right && (at >= right->values.size() || right->values[at] != value)) throw Stuck();
    };
    try {
        for (uint32_t address : READABLE) see(machine.read(address));
        for (uint32_t strobes = 0; strobes < 16; ++strobes) {
            machine.write(BASE, ~machine.read(BASE), strobes);
            see(machine.read(BASE));
        }
        for (const Run& run : job.runs) {
            machine.top->errors_from = run.errors_from;
            machine.top->errors_to = run.errors_to;
            machine.write_both(PROGRAM, run.program);
            machine.write_both(BASE, run.base);
            machine.write(LENGTH, run.length);
            machine.write(INTERRUPT, 3);
            machine.write(INTERRUPT_ENABLE, 3);
            for (uint32_t held : {PROGRAM, PROGRAM + 4, BASE, BASE + 4, LENGTH, INTERRUPT_ENABLE})
                see(machine.read(held));
            for (uint64_t starts = 0; starts <= run.again; ++starts) machine.write(CONTROL, 1);
            const uint64_t before = machine.clocks;
            const size_t number = result.took.size();
            // What takes three times as long stands still.
            const uint64_t most = right ? 3 * right->took[number] + PATIENCE : 1000000;
            see(machine.ends(run.reset_after ? run.reset_after : most));
            if (run.in_burst) {
                see(machine.ends_before_burst(most));
                see(machine.top->in_burst);
            }
            result.took.push_back(machine.clocks - before);
            bool failed = false;
            if (!run.reset_after) {
                see(machine.top->pending);
                see(machine.read(STATUS));
                const uint32_t error = machine.read(ERROR);
                see(error);
                see(machine.read(ERROR_DESCRIPTOR));
                see(machine.read(INTERRUPT));
                failed = error != 0;
                for (uint32_t counter : {ARRAY_BUSY, WORDS_READ, WORDS_WRITTEN})
                    for (uint32_t half : {0, 4})
                        if (!failed) see(machine.read(counter + half));
                for (uint32_t counter : {WAIT_LOAD, WAIT_VECTOR, WAIT_STORE})
                    if (!failed) result.waits.push_back(machine.read(counter));
            }
            result.failed |= failed;
            if (run.reset_after || failed) {
                machine.reset(run);
                see(machine.top->pending);
                if (run.pin_clocks)
                    for (uint32_t address : READABLE) see(machine.read(address));
                else
                    see(machine.read(STATUS));
            }
        }
        machine.clock(2 * (job.latency + job.spread) + 10);
        for (uint64_t asked : {machine.top->m_axi_arcache, machine.top->m_axi_awcache,
                               machine.top->m_axi_arprot, machine.top->m_axi_awprot})
            see(asked);
        see(machine.top->broken);
        see(machine.top->outside);
        machine.top->dump = 1;
        machine.clock();
        std::ostringstream text;
        text << std::ifstream("memory_out.hex").rdbuf();
        result.memory = text.str();
    } catch (Stuck) {
        result.stuck = true;
    }
    result.clocks = machine.clocks;
    return result;
}

static bool same(const Result& one, const Result& other) {
    return one.values == other.values && one.took == other.took && one.waits == other.waits &&
           one.memory == other.memory && one.stuck == other.stuck;
}

int main(int count, char** arguments) {
    std::vector<int> mutants;
    for (char* next = arguments[1]; *next;) {
        mutants.push_back(std::strtol(next, &next, 10));
        if (*next) ++next;
    }
    bool tried_again = false;
    for (int number = 2; number < count; ++number) {
        if (mutants.empty()) break;
        const Job job = read_job(arguments[number]);
        see_all(mutants[0]);
        const Result right = run_job(job, nullptr);
        // A right machine breaks no rule and writes something.
        const size_t values = right.values.size();
        if (right.stuck || values < 2 || right.values[values - 2] || right.memory.empty()) return 3;
        std::vector<int> left;
        for (int mutant : mutants) {
            if (!was_seen(mutant)) {
                left.push_back(mutant);
                continue;
            }
            chosen = mutant;
            const Result found = run_job(job, &right);
            // What a program with an error leaves in memory may depend on cycles.
            const bool differs = !right.failed && found.memory != right.memory;
            const bool killed = found.stuck || differs;
            const bool counts = found.took == right.took && found.waits != right.waits;
            if (killed || counts) {
                std::printf("%d %d %llu %d\n", mutant, number - 2,
                            static_cast<unsigned long long>(found.clocks), !killed);
                std::fflush(stdout);
            }
            if (!killed) left.push_back(mutant);
        }
        // Once, for a program takes long.
        if (!tried_again && left.size() < mutants.size()) {
            tried_again = true;
            chosen = 0;
            const Result again = run_job(job, &right);
            if (!same(right, again)) {
                std::printf("0 %d %llu 0\n", number - 2,
                            static_cast<unsigned long long>(again.clocks));
                std::fflush(stdout);
            }
        }
        mutants = left;
    }
    return 0;
}
