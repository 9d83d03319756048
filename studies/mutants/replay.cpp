// Replays recorded inputs on a design and on each of its mutants, up to the first difference.
//
// Arguments: numbers of mutants as a list; then for every run of the design a file of
// rows, the kind of each output, and 1 if its bench drives nothing but streams, else 0. A line a
// mutant and run that shows a difference is printed: "mutant run row kind", where kind is 0 for a
// result that is wrong and 1 for anything else. After a run with differences the design is replayed
// once more, as mutant 0, and has to show none. A mutant that changes nothing in a run, at the place
// of its change, is left out there.
#include "design.h"
#include "pins.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

enum Kind { IGNORED = -1, RESULT = 0, CONTROL = 1, PAYLOAD = 2 };

struct Output {
    int offset, words, kind, valid;
};

// Words of a stream's pins: a source's are inputs but `ready`, a sink's outputs but `ready`.
struct Stream {
    int valid, ready;
    std::vector<int> payload;
};
static const std::vector<Stream> SOURCES SOURCES_TABLE, SINKS SINKS_TABLE;
static const int PATIENCE = 4096;  // cycles without a beat after which none comes

static std::vector<uint32_t> read_rows(const char* name) {
    FILE* file = std::fopen(name, "rb");
    if (!file) std::exit(2);
    std::fseek(file, 0, SEEK_END);
    std::vector<uint32_t> words(std::ftell(file) / 4);
    std::rewind(file);
    if (std::fread(words.data(), 4, words.size(), file) != words.size()) std::exit(2);
    std::fclose(file);
    return words;
}

template <typename See>
static void replay(const std::vector<uint32_t>& inputs, See see) {
    VerilatedContext context;
    const Design top(new Vtop(&context));
    const size_t rows = inputs.size() / IN_WORDS;
    uint32_t outputs[OUT_WORDS];
#if CLOCKED
    top->clk = 0;
#endif
    for (size_t row = 0; row < rows; ++row) {
        put(*top, &inputs[row * IN_WORDS]);
        top->eval();
        take(*top, outputs);
        if (!see(row, outputs)) break;
#if CLOCKED
        top->clk = 1;
        top->eval();
        top->clk = 0;
#endif
    }
}

using Beats = std::vector<std::vector<uint32_t>>;

static std::vector<uint32_t> payload_of(const Stream& stream, const uint32_t* row) {
    std::vector<uint32_t> beat;
    for (int word : stream.payload) beat.push_back(row[word]);
    return beat;
}

// A run of a bench that drives nothing but streams, from its last reset on, as beats.
class Job {
public:
    Job(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& right)
        : inputs(inputs), rows(inputs.size() / IN_WORDS), taken(SOURCES.size()),
          expected(SINKS.size()) {
        if (RESET < 0 || SINKS.empty()) return;
        for (begin = rows; begin && !in(begin - 1)[RESET];) --begin;
        for (reset = begin; reset && in(reset - 1)[RESET];) --reset;
        if (!begin || !steady()) return;
        for (size_t row = begin; row < rows; ++row) {
            const uint32_t* out = &right[row * OUT_WORDS];
            for (size_t i = 0; i < SOURCES.size(); ++i)
                if (in(row)[SOURCES[i].valid] && out[SOURCES[i].ready])
                    taken[i].push_back(payload_of(SOURCES[i], in(row)));
            for (size_t i = 0; i < SINKS.size(); ++i)
                if (out[SINKS[i].valid] && in(row)[SINKS[i].ready])
                    expected[i].push_back(payload_of(SINKS[i], out));
        }
        usable = passes();
    }

    // The recorded cycles say when a source pauses and when a sink is ready; a source shows a beat
    // until it is taken. All beats must come, no others, and none may change while it waits.
    bool passes() const {
        VerilatedContext context;
        const Design top(new Vtop(&context));
        std::vector<uint32_t> now(IN_WORDS), out(OUT_WORDS);
        std::vector<size_t> next(SOURCES.size()), came(SINKS.size());
        std::vector<bool> offered(SOURCES.size()), waits(SINKS.size());
        Beats waiting(SINKS.size());
        size_t idle = 0;
#if CLOCKED
        top->clk = 0;
        for (size_t clock = reset; idle < PATIENCE; ++clock) {
            const bool recorded = clock < rows;
            const uint32_t* row = in(recorded ? clock : rows - 1);
            std::copy(row, row + IN_WORDS, now.begin());
            if (clock >= begin) {
                for (size_t i = 0; i < SOURCES.size(); ++i) {
                    const bool more = next[i] < taken[i].size();
                    offered[i] = offered[i] || (more && (!recorded || row[SOURCES[i].valid]));
                    now[SOURCES[i].valid] = offered[i];
                    for (size_t k = 0; offered[i] && k < SOURCES[i].payload.size(); ++k)
                        now[SOURCES[i].payload[k]] = taken[i][next[i]][k];
                }
                for (const Stream& sink : SINKS)
                    if (!recorded) now[sink.ready] = 1;
            }
            put(*top, now.data());
            top->eval();
            take(*top, out.data());
            bool moved = clock < begin;
            for (size_t i = 0; clock >= begin && i < SINKS.size(); ++i) {
                const bool there = out[SINKS[i].valid];
                auto beat = payload_of(SINKS[i], out.data());
                if (waits[i] && (!there || beat != waiting[i])) return false;
                waits[i] = there && !now[SINKS[i].ready];
                if (there && !waits[i]) {
                    if (came[i] == expected[i].size() || beat != expected[i][came[i]]) return false;
                    ++came[i];
                    moved = true;
                }
                waiting[i] = std::move(beat);
            }
            for (size_t i = 0; clock >= begin && i < SOURCES.size(); ++i)
                if (offered[i] && out[SOURCES[i].ready]) {
                    ++next[i];
                    offered[i] = false;
                    moved = true;
                }
            idle = moved || recorded ? 0 : idle + 1;
            top->clk = 1;
            top->eval();
            top->clk = 0;
        }
#endif
        for (size_t i = 0; i < SINKS.size(); ++i)
            if (came[i] < expected[i].size()) return false;
        for (size_t i = 0; i < SOURCES.size(); ++i)
            if (next[i] < taken[i].size()) return false;
        return true;
    }

    bool usable = false;

private:
    const uint32_t* in(size_t row) const { return &inputs[row * IN_WORDS]; }

    // Whether inputs that belong to no stream stay as they are.
    bool steady() const {
        std::vector<bool> moves(IN_WORDS);
        for (const Stream& source : SOURCES) {
            moves[source.valid] = true;
            for (int word : source.payload) moves[word] = true;
        }
        for (const Stream& sink : SINKS) moves[sink.ready] = true;
        for (size_t row = begin; row < rows; ++row)
            for (int word = 0; word < IN_WORDS; ++word)
                if (!moves[word] && in(row)[word] != in(begin)[word]) return false;
        return true;
    }

    const std::vector<uint32_t>& inputs;
    size_t rows, begin = 0, reset = 0;
    std::vector<Beats> taken, expected;
};

int main(int count, char** arguments) {
    std::vector<int> mutants;
    for (char* next = arguments[1]; *next;) {
        mutants.push_back(std::strtol(next, &next, 10));
        if (*next) ++next;
    }
    mutants.push_back(0);
    std::vector<bool> found(1 << 20);
    for (int run = 0; 2 + 3 * run + 2 < count; ++run) {
        const std::vector<uint32_t> inputs = read_rows(arguments[2 + 3 * run]);
        std::vector<Output> kinds OUTPUTS_TABLE;
        const char* kind = arguments[3 + 3 * run];
        for (Output& output : kinds) {
            char* end;
            output.kind = std::strtol(kind, &end, 10);
            output.valid = std::strtol(end + 1, &end, 10);
            kind = *end ? end + 1 : end;
        }
        const size_t rows = inputs.size() / IN_WORDS;
        std::vector<uint32_t> right(rows * OUT_WORDS);
        see_all(mutants[0]);
        replay(inputs, [&](size_t row, const uint32_t* outputs) {
            std::memcpy(&right[row * OUT_WORDS], outputs, sizeof(uint32_t) * OUT_WORDS);
            return true;
        });
        const bool in_beats = *arguments[4 + 3 * run] == '1';
        std::unique_ptr<Job> job;  // read when it is needed
        // Before the end of the first reset nobody looks.
        size_t start = 0;
        if (RESET >= 0) {
            while (start < rows && !inputs[start * IN_WORDS + RESET]) ++start;
            if (start > 8) start = 0;
            while (start < rows && inputs[start * IN_WORDS + RESET]) ++start;
        }
        bool differ = false;
        for (int mutant : mutants) {
            if (found[mutant] || !(mutant ? was_seen(mutant) : differ)) continue;
            chosen = mutant;
            bool disturbs = false;
            replay(inputs, [&](size_t row, const uint32_t* outputs) {
                const uint32_t* known = &right[row * OUT_WORDS];
                if (row < start || !std::memcmp(known, outputs, sizeof(uint32_t) * OUT_WORDS))
                    return true;
                bool control = false, wrong = false;
                for (const Output& output : kinds) {
                    if (!std::memcmp(known + output.offset, outputs + output.offset,
                                     sizeof(uint32_t) * output.words))
                        continue;
                    if (output.kind == RESULT) wrong = true;
                    if (output.kind == CONTROL) control = true;
                    if (output.kind == PAYLOAD && (known[output.valid] & 1)) wrong = true;
                }
                if (!control && !wrong) return true;
                std::printf("%d %d %zu %d\n", mutant, run, row, control ? 1 : 0);
                std::fflush(stdout);
                found[mutant] = !control;
                differ = true;
                disturbs = control;
                return false;
            });
            if (!disturbs || !in_beats) continue;
            if (!job) {
                chosen = 0;
                job = std::make_unique<Job>(inputs, right);
                chosen = mutant;
            }
            if (job->usable && !job->passes()) {
                std::printf("%d %d %zu 0\n", mutant, run, rows);
                std::fflush(stdout);
                found[mutant] = true;
            }
        }
    }
    return 0;
}
