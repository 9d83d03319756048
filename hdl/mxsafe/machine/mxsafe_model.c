/* Compiled models on the MX-SAFE machine: see mxsafe_model.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "mxsafe_model.h"

#include <stddef.h>
#include <string.h>

#include "mxsafe_machine.h"

#define BIT(register, field) (1u << MXSAFE_REG_##register##_##field##_OFFSET)

static uint32_t read32(const mxsafe_bus *bus, uint32_t offset)
{
    return bus->read32(bus->context, offset);
}

static void write32(const mxsafe_bus *bus, uint32_t offset, uint32_t value)
{
    bus->write32(bus->context, offset, value);
}

void mxsafe_model_input(const mxsafe_model *model, uint32_t input, const float *numbers,
                        uint8_t *memory)
{
    const mxsafe_port *port = &model->inputs[input];
    uint32_t i, n;
    for (i = 0; i < port->strides_count; i++) {
        const mxsafe_strides *one = &port->strides[i];
        for (n = 0; n < one->count; n++)
            memcpy(memory + sizeof(float) * (one->place + (size_t)n * one->place_step),
                   numbers + one->number + (size_t)n * one->number_step, sizeof(float));
    }
}

void mxsafe_model_output(const mxsafe_model *model, uint32_t output, const uint8_t *memory,
                         float *numbers)
{
    const mxsafe_port *port = &model->outputs[output];
    uint32_t i, n;
    for (i = 0; i < port->strides_count; i++) {
        const mxsafe_strides *one = &port->strides[i];
        for (n = 0; n < one->count; n++)
            memcpy(numbers + one->number + (size_t)n * one->number_step,
                   memory + sizeof(float) * (one->place + (size_t)n * one->place_step),
                   sizeof(float));
    }
}

/* Waits for the end of a program or a reset; whether it comes. */
static int at_rest(const mxsafe_bus *bus, uint32_t reads)
{
    while (read32(bus, MXSAFE_REG_STATUS) & BIT(STATUS, RUNNING))
        if (reads-- == 0)
            return 0;
    return 1;
}

static int reset(const mxsafe_bus *bus, uint32_t reads)
{
    write32(bus, MXSAFE_REG_CONTROL, BIT(CONTROL, RESET));
    return at_rest(bus, reads);
}

int mxsafe_model_run(const mxsafe_model *model, const mxsafe_bus *bus, uint64_t address,
                     uint32_t reads)
{
    const uint64_t program = address + model->program;
    uint32_t i;
    int error;
    for (i = 0; i < model->expected_count; i++)
        if (read32(bus, model->expected[i].offset) != model->expected[i].value)
            return MXSAFE_MODEL_OTHER_MACHINE;
    if (read32(bus, MXSAFE_REG_STATUS) & BIT(STATUS, ERROR)) /* of an earlier program */
        if (!reset(bus, reads))
            return MXSAFE_MODEL_LATE;
    write32(bus, MXSAFE_REG_PROGRAM_LOW, (uint32_t)program);
    write32(bus, MXSAFE_REG_PROGRAM_HIGH, (uint32_t)(program >> 32));
    write32(bus, MXSAFE_REG_PROGRAM_LENGTH, model->descriptors);
    write32(bus, MXSAFE_REG_BASE_LOW, (uint32_t)address);
    write32(bus, MXSAFE_REG_BASE_HIGH, (uint32_t)(address >> 32));
    write32(bus, MXSAFE_REG_CONTROL, BIT(CONTROL, START));
    if (!at_rest(bus, reads)) {
        (void)reset(bus, reads);
        return MXSAFE_MODEL_LATE;
    }
    if (!(read32(bus, MXSAFE_REG_STATUS) & BIT(STATUS, ERROR)))
        return MXSAFE_MODEL_DONE;
    error = (int)read32(bus, MXSAFE_REG_ERROR);
    (void)reset(bus, reads);
    return error;
}
