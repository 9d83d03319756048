/* Compiled models on the MX-SAFE machine, from firmware: C99, without a library beside memcpy.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * `mxsafe export` writes a model's file of bytes, its program and its memory, and a source with its
 * mxsafe_model. Put the bytes where the processor and the machine see them, at a multiple of a word
 * of the machine; write inputs; run; read outputs. The bytes stay as they are from run to run but
 * for what the program writes: inputs and outputs. The processor is little-endian.
 */
#ifndef MXSAFE_MODEL_H
#define MXSAFE_MODEL_H

#include <stdint.h>

/* How registers of the machine are reached: two functions, and what they are called with. */
typedef struct {
    uint32_t (*read32)(void *context, uint32_t offset);
    void (*write32)(void *context, uint32_t offset, uint32_t value);
    void *context;
} mxsafe_bus;

/* Numbers of a tensor, in memory too with a step; both are counted in numbers of 4 bytes. */
typedef struct {
    uint32_t number, place, count, number_step, place_step;
} mxsafe_strides;

/* An input or an output: binary32 numbers, the last axis of the shape innermost. */
typedef struct {
    const char *name;
    uint32_t numbers, strides_count;
    const mxsafe_strides *strides;
} mxsafe_port;

/* A register of the machine that the model is for. */
typedef struct {
    uint32_t offset, value;
} mxsafe_expected;

typedef struct {
    uint32_t bytes;       /* of the file */
    uint32_t program;     /* where in it the program is */
    uint32_t descriptors; /* of the program */
    uint32_t expected_count, inputs_count, outputs_count;
    const mxsafe_expected *expected;
    const mxsafe_port *inputs, *outputs;
} mxsafe_model;

/* What mxsafe_model_run returns beside the codes of the machine's own errors, MXSAFE_ERROR_... */
enum { MXSAFE_MODEL_DONE = 0, MXSAFE_MODEL_OTHER_MACHINE = -1, MXSAFE_MODEL_LATE = -2 };

/* Writes an input into memory, which holds the bytes. */
void mxsafe_model_input(const mxsafe_model *model, uint32_t input, const float *numbers,
                        uint8_t *memory);

/* Runs the program over memory, which the machine has at this address; the status is read so often
 * at most. What the processor has written must be in memory before, and caches forgotten after. */
int mxsafe_model_run(const mxsafe_model *model, const mxsafe_bus *bus, uint64_t address,
                     uint32_t reads);

/* Reads an output from memory. */
void mxsafe_model_output(const mxsafe_model *model, uint32_t output, const uint8_t *memory,
                         float *numbers);

#endif /* MXSAFE_MODEL_H */
