// A board that Verilator has compiled, and the other end of its serial line.
#include <cstdint>
#include <deque>

#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr int kBits = 10;  // start bit, eight of data, stop bit

class Board {
public:
    Board() { m_top.ftdi_txd = 1; }

    ~Board() {
        Verilated::threadContextp(&m_context);
        m_top.final();
    }

    void send(const uint8_t* data, uint64_t size) { m_sent.insert(m_sent.end(), data, data + size); }

    // Bytes that have come: so many, or fewer if none comes for some clocks with nothing to send.
    uint64_t receive(uint8_t* data, uint64_t size, uint64_t patience) {
        uint64_t silent = 0;
        while (m_come.size() < size && silent < patience) {
            const size_t before = m_come.size();
            clock();
            silent = m_come.size() == before && m_sent.empty() && m_left == 0 ? silent + 1 : 0;
        }
        uint64_t count = 0;
        for (; count < size && !m_come.empty(); ++count) {
            data[count] = m_come.front();
            m_come.pop_front();
        }
        return count;
    }

    void press(bool down) {
        m_top.fire1 = down;
        for (int i = 0; i < 100; ++i) clock();
    }

    uint32_t lights() const { return m_top.led; }
    uint32_t gpio0() const { return m_top.wifi_gpio0; }

private:
    void clock() {
        m_top.clk_25mhz = 0;
        m_top.eval();
        m_top.clk_25mhz = 1;
        m_top.eval();
        drive();
        sample();
    }

    void drive() {
        if (m_left == 0 && !m_sent.empty()) {
            m_frame = m_sent.front() << 1 | 1 << (kBits - 1);
            m_sent.pop_front();
            m_left = kBits * DIVISOR;
        }
        if (m_left == 0) return;
        m_top.ftdi_txd = m_frame >> (kBits - 1 - (m_left - 1) / DIVISOR) & 1;
        --m_left;
    }

    // Reads each bit in its middle; a byte without its stop bit is dropped.
    void sample() {
        if (m_age < 0) {
            if (m_top.ftdi_rxd) return;
            m_age = 0;
        }
        if (m_age % DIVISOR == DIVISOR / 2) m_bits = m_bits >> 1 | m_top.ftdi_rxd << (kBits - 1);
        if (++m_age < kBits * DIVISOR - DIVISOR / 4) return;
        if (m_bits >> (kBits - 1) && !(m_bits & 1)) m_come.push_back(m_bits >> 1 & 0xFF);
        m_age = -1;
    }

    struct Current {
        explicit Current(VerilatedContext* context) {
            Verilated::threadContextp(context);
            context->randReset(2);  // registers and memories begin at random
        }
    };

    VerilatedContext m_context;
    Current m_current{&m_context};
    Vtop m_top{&m_context};
    std::deque<uint8_t> m_sent, m_come;
    uint32_t m_frame = 0, m_left = 0, m_bits = 0;
    int m_age = -1;
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void* board_new() { return new Board; }
EXPORTED void board_delete(void* board) { delete static_cast<Board*>(board); }
EXPORTED void board_send(void* board, const uint8_t* data, uint64_t size) {
    static_cast<Board*>(board)->send(data, size);
}
EXPORTED uint64_t board_receive(void* board, uint8_t* data, uint64_t size, uint64_t patience) {
    return static_cast<Board*>(board)->receive(data, size, patience);
}
EXPORTED void board_press(void* board, bool down) { static_cast<Board*>(board)->press(down); }
EXPORTED uint32_t board_lights(void* board) { return static_cast<Board*>(board)->lights(); }
EXPORTED uint32_t board_gpio0(void* board) { return static_cast<Board*>(board)->gpio0(); }
