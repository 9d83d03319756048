// A lane of functions at 256 arguments at a time: each gate is one operation on vectors of bits.
#include <cstdint>
#include <cstring>

typedef uint32_t Bits __attribute__((vector_size(32)));
static const int WORDS = 8, ARGUMENT_BITS = 32, RESULT_BITS = 32;
static const uint32_t ONES = ~0u;

#include "netlist.h"

// Argument 8 * bit + word of a group is at this bit of this word of each vector.
static void arguments(uint32_t first, Bits *bits) {
  static const uint32_t OF_BITS[] = {0xaaaaaaaa, 0xcccccccc, 0xf0f0f0f0, 0xff00ff00, 0xffff0000};
  for (int bit = 0; bit < ARGUMENT_BITS; ++bit)
    for (int word = 0; word < WORDS; ++word)
      bits[bit][word] = bit < 3   ? (word >> bit & 1 ? ONES : 0)
                        : bit < 8 ? OF_BITS[bit - 3]
                                  : (first >> bit & 1 ? ONES : 0);
}

// In each word of 32 vectors: bit k of vector b becomes bit b of vector k.
static void transpose(Bits *vectors) {
  uint32_t mask = 0x0000ffff;
  for (int step = 16; step; step >>= 1, mask ^= mask << step)
    for (int low = 0; low < 32; low = (low + step + 1) & ~step) {
      Bits moved = (vectors[low] >> step ^ vectors[low + step]) & mask;
      vectors[low] ^= moved << step;
      vectors[low + step] ^= moved;
    }
}

// Place of the first result that is not the one expected, and what came there; else `count`.
extern "C" uint64_t first_wrong(const uint8_t *others, uint32_t first, uint64_t count,
                                const uint32_t *expected, uint32_t *came) {
  static thread_local Bits inputs[ARGUMENT_BITS + OTHERS];
  for (int other = 0; other < OTHERS; ++other)
    inputs[ARGUMENT_BITS + other] = Bits{} + (others[other] ? ONES : 0);
  for (uint64_t at = 0; at < count; at += 32 * WORDS) {
    Bits got[RESULT_BITS], wrong{};
    arguments(first + at, inputs);
    netlist(inputs, got);
    transpose(got);
    for (int bit = 0; bit < 32; ++bit) {
      Bits right;
      memcpy(&right, expected + at + WORDS * bit, sizeof right);
      wrong |= got[bit] ^ right;
    }
    uint32_t any = 0;
    for (int word = 0; word < WORDS; ++word) any |= wrong[word];
    for (int place = 0; any && place < 32 * WORDS; ++place) {
      *came = got[place / WORDS][place % WORDS];
      if (*came != expected[at + place]) return at + place;
    }
  }
  return count;
}
