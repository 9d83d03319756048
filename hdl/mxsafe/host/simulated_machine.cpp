// A machine that Verilator has compiled, with memory beside it, behind plain functions: what a
// driver would do, and the clock. Memory answers in order, after a latency, with pauses; where there
// is none it answers with errors. It watches the rules of AXI4.
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr size_t kMostBursts = 64;  // that wait in each direction
constexpr uint64_t kPage = 4096;
constexpr uint8_t kOkay = 0, kError = 2, kIncrementing = 1;
constexpr int kResetClocks = 4;
constexpr int kRandom = 2;  // of Verilator's ways to begin

struct Region {
    uint64_t address, bytes;
    uint8_t* data;
};

struct Burst {
    uint64_t address, due;
    uint32_t left;
};

struct Answer {
    uint64_t due;
    bool error;
};

class Simulated {
public:
    Simulated(uint32_t latency, uint32_t pause, uint32_t seed, uint32_t power_up)
        : m_current(&m_context, power_up), m_latency(latency), m_pause(pause), m_random(seed | 1) {
        // Pins begin at random as registers do.
        m_top.s_axi_awvalid = m_top.s_axi_wvalid = m_top.s_axi_bready = 0;
        m_top.s_axi_arvalid = m_top.s_axi_rready = 0;
        m_top.m_axi_arready = m_top.m_axi_awready = m_top.m_axi_wready = 0;
        m_top.m_axi_rvalid = m_top.m_axi_bvalid = 0;
        m_top.rst = 1;
        for (int i = 0; i < kResetClocks; ++i) clock();
        m_top.rst = 0;
    }

    // Parts of the design go where the thread's context is, which another machine may have set.
    ~Simulated() {
        Verilated::threadContextp(&m_context);
        m_top.final();
    }

    void map(uint64_t address, uint8_t* data, uint64_t bytes) {
        for (Region& region : m_regions)
            if (region.address == address) {
                region = {address, bytes, data};
                return;
            }
        m_regions.push_back({address, bytes, data});
    }

    void write(uint32_t address, uint32_t value) {
        m_top.s_axi_awaddr = address;
        m_top.s_axi_wdata = value;
        m_top.s_axi_wstrb = 0xF;
        m_top.s_axi_awvalid = m_top.s_axi_wvalid = m_top.s_axi_bready = 1;
        for (bool answered = false; !answered;) {
            settle();
            const bool taken = m_top.s_axi_awready, data_taken = m_top.s_axi_wready;
            answered = m_top.s_axi_bvalid;
            edge();
            if (taken) m_top.s_axi_awvalid = 0;
            if (data_taken) m_top.s_axi_wvalid = 0;
        }
        m_top.s_axi_bready = 0;
    }

    uint32_t read(uint32_t address) {
        m_top.s_axi_araddr = address;
        m_top.s_axi_arvalid = m_top.s_axi_rready = 1;
        uint32_t value = 0;
        for (bool answered = false; !answered;) {
            settle();
            const bool taken = m_top.s_axi_arready;
            answered = m_top.s_axi_rvalid;
            value = m_top.s_axi_rdata;
            edge();
            if (taken) m_top.s_axi_arvalid = 0;
        }
        m_top.s_axi_rready = 0;
        return value;
    }

    // Cycles until the interrupt is raised or a rule is broken, at most so many; whether it is.
    bool run(uint64_t clocks) {
        while (clocks-- && !m_top.irq && m_broken.empty()) clock();
        return m_top.irq;
    }

    const char* broken() const { return m_broken.c_str(); }

private:
    using Data = decltype(Vtop::m_axi_rdata);
    static constexpr uint64_t kBeat = BEAT_BYTES;
    static_assert(sizeof(Data) >= kBeat, "a beat is the width of the data channel");

    void clock() {
        settle();
        edge();
    }

    void settle() {
        m_top.clk = 0;
        m_top.eval();
    }

    // A rising edge: memory takes what is offered before it, and offers what it has after it.
    void edge() {
        const bool in_reset = m_top.rst;
        const bool reads = m_top.m_axi_arvalid && m_top.m_axi_arready;
        const bool read = m_top.m_axi_rvalid && m_top.m_axi_rready;
        const bool writes = m_top.m_axi_awvalid && m_top.m_axi_awready;
        const bool answered = m_top.m_axi_bvalid && m_top.m_axi_bready;
        if (!in_reset) {
            watch();
            if (reads) m_reads.push_back(asked(m_top.m_axi_araddr, m_top.m_axi_arlen));
            if (m_top.m_axi_wvalid && m_top.m_axi_wready) take_data();
            if (writes) m_writes.push_back(asked(m_top.m_axi_awaddr, m_top.m_axi_awlen));
        }
        m_top.clk = 1;
        m_top.eval();
        ++m_now;
        if (in_reset) return;
        const uint32_t random = next_random();
        m_top.m_axi_arready = m_reads.size() < kMostBursts && !pauses(random);
        m_top.m_axi_awready = m_writes.size() < kMostBursts && m_answers.size() < kMostBursts
                              && !pauses(random >> 8);
        m_top.m_axi_wready = !m_writes.empty() && !pauses(random >> 16);
        if (read) m_top.m_axi_rvalid = 0;
        if (!m_top.m_axi_rvalid && !m_reads.empty() && m_now >= m_reads.front().due
            && !pauses(random >> 24))
            give_data();
        if (answered) m_top.m_axi_bvalid = 0;
        if (!m_top.m_axi_bvalid && !m_answers.empty() && m_now >= m_answers.front().due) {
            m_top.m_axi_bvalid = 1;
            m_top.m_axi_bresp = m_answers.front().error ? kError : kOkay;
            m_answers.pop_front();
        }
    }

    Burst asked(uint64_t address, uint32_t length) const {
        return {address, m_now + m_latency, length};
    }

    void give_data() {
        Burst& burst = m_reads.front();
        const uint8_t* const data = find(burst.address);
        // The channel's words are those of this computer, the lowest first, as bytes in memory are.
        if (data)
            std::memcpy(&m_top.m_axi_rdata, data, kBeat);
        else
            std::memset(&m_top.m_axi_rdata, 0, kBeat);
        m_top.m_axi_rresp = data ? kOkay : kError;
        m_top.m_axi_rlast = burst.left == 0;
        m_top.m_axi_rvalid = 1;
        burst.address += kBeat;
        if (burst.left-- == 0) m_reads.pop_front();
    }

    void take_data() {
        Burst& burst = m_writes.front();
        uint8_t strobes[sizeof(m_top.m_axi_wstrb)];
        uint8_t bytes[sizeof(m_top.m_axi_wdata)];
        std::memcpy(strobes, &m_top.m_axi_wstrb, sizeof(strobes));
        std::memcpy(bytes, &m_top.m_axi_wdata, sizeof(bytes));
        if (uint8_t* const data = find(burst.address)) {
            for (uint64_t i = 0; i < kBeat; ++i)
                if (strobes[i / 8] >> (i % 8) & 1) data[i] = bytes[i];
        } else {
            m_write_error = true;
        }
        burst.address += kBeat;
        const bool last = burst.left-- == 0;
        if (last != bool(m_top.m_axi_wlast)) m_broken = "wlast is not with the last beat of a burst";
        if (!last) return;
        m_writes.pop_front();
        m_answers.push_back({m_now + m_latency, m_write_error});
        m_write_error = false;
    }

    // Where a beat is, if it lies in memory.
    uint8_t* find(uint64_t address) const {
        for (const Region& region : m_regions) {
            const uint64_t offset = address - region.address;  // wraps where it lies before
            if (offset < region.bytes && region.bytes - offset >= kBeat)
                return region.data + offset;
        }
        return nullptr;
    }

    struct Request {
        uint64_t address;
        uint32_t length, size, burst;
        bool waits;
        bool operator!=(const Request& other) const {
            return address != other.address || length != other.length || size != other.size;
        }
    };

    // Bursts go up in whole beats within 4 KiB, and what is offered stays.
    void watch() {
        const Request read{m_top.m_axi_araddr, m_top.m_axi_arlen, m_top.m_axi_arsize,
                           m_top.m_axi_arburst, m_top.m_axi_arvalid && !m_top.m_axi_arready};
        const Request write{m_top.m_axi_awaddr, m_top.m_axi_awlen, m_top.m_axi_awsize,
                            m_top.m_axi_awburst, m_top.m_axi_awvalid && !m_top.m_axi_awready};
        check(m_top.m_axi_arvalid, read, m_offered_read, "ar");
        check(m_top.m_axi_awvalid, write, m_offered_write, "aw");
        m_offered_read = read;
        m_offered_write = write;
    }

    void check(bool valid, const Request& now, const Request& before, const std::string& channel) {
        if (before.waits && (!valid || now != before))
            m_broken = channel + " changes before it is taken";
        if (!valid) return;
        const uint64_t bytes = (now.length + uint64_t{1}) * kBeat;
        if (now.address % kBeat || (uint64_t{1} << now.size) != kBeat)
            m_broken = channel + " asks for something else than whole beats";
        if (now.burst != kIncrementing) m_broken = channel + " has another burst than INCR";
        if (now.address % kPage + bytes > kPage) m_broken = channel + " crosses 4 KiB";
    }

    bool pauses(uint32_t random) const { return (random & 0xFF) < m_pause; }

    uint32_t next_random() {
        m_random ^= m_random << 13;
        m_random ^= m_random >> 17;
        m_random ^= m_random << 5;
        return m_random;
    }

    // What registers and memories hold at first is drawn while the design is made.
    struct Current {
        Current(VerilatedContext* context, uint32_t power_up) {
            Verilated::threadContextp(context);
            context->randReset(kRandom);
            context->randSeed(power_up);
        }
    };

    VerilatedContext m_context;
    Current m_current;
    Vtop m_top{&m_context};
    const uint32_t m_latency, m_pause;
    uint32_t m_random;
    uint64_t m_now = 0;
    std::vector<Region> m_regions;
    std::deque<Burst> m_reads, m_writes;
    std::deque<Answer> m_answers;
    Request m_offered_read{}, m_offered_write{};
    bool m_write_error = false;
    std::string m_broken;
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void* machine_new(uint32_t latency, uint32_t pause, uint32_t seed, uint32_t power_up) {
    return new Simulated(latency, pause, seed, power_up);
}
EXPORTED void machine_delete(void* machine) { delete static_cast<Simulated*>(machine); }
EXPORTED void machine_map(void* machine, uint64_t address, uint8_t* data, uint64_t bytes) {
    static_cast<Simulated*>(machine)->map(address, data, bytes);
}
EXPORTED uint32_t machine_read(void* machine, uint32_t address) {
    return static_cast<Simulated*>(machine)->read(address);
}
EXPORTED void machine_write(void* machine, uint32_t address, uint32_t value) {
    static_cast<Simulated*>(machine)->write(address, value);
}
EXPORTED bool machine_run(void* machine, uint64_t clocks) {
    return static_cast<Simulated*>(machine)->run(clocks);
}
EXPORTED const char* machine_broken(void* machine) {
    return static_cast<Simulated*>(machine)->broken();
}
