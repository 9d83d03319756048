/* Registers and descriptors of the MX-SAFE machine, version 3.
 *
 * Generated from mxsafe.machine.description; do not edit.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A field X of a descriptor K has its lowest bit at MXSAFE_K_X_OFFSET and MXSAFE_K_X_WIDTH
 * bits: mxsafe_set(d, MXSAFE_FIELD(K, X), value).
 */
#ifndef MXSAFE_MACHINE_H
#define MXSAFE_MACHINE_H

#include <stdint.h>
#include <string.h>

/* Offset and width of a field, for the functions below. */
#define MXSAFE_FIELD(kind, field) \
    MXSAFE_##kind##_##field##_OFFSET, MXSAFE_##kind##_##field##_WIDTH

/* Identity. */
#define MXSAFE_IDENTITY         0x4653584Du
#define MXSAFE_VERSION          3u
#define MXSAFE_DESCRIPTOR_BYTES 32u

/* Registers: byte offsets, and their fields. */
#define MXSAFE_REG_IDENTITY                      0x00u
#define MXSAFE_REG_VERSION                       0x04u
#define MXSAFE_REG_ARRAY                         0x08u
#define MXSAFE_REG_ARRAY_ROWS_OFFSET             0u
#define MXSAFE_REG_ARRAY_ROWS_WIDTH              8u
#define MXSAFE_REG_ARRAY_COLUMNS_OFFSET          8u
#define MXSAFE_REG_ARRAY_COLUMNS_WIDTH           8u
#define MXSAFE_REG_ARRAY_LANES_OFFSET            16u
#define MXSAFE_REG_ARRAY_LANES_WIDTH             8u
#define MXSAFE_REG_FORMATS                       0x0Cu
#define MXSAFE_REG_FORMATS_ARITHMETIC_OFFSET     0u
#define MXSAFE_REG_FORMATS_ARITHMETIC_WIDTH      4u
#define MXSAFE_REG_FORMATS_FORMAT_A_OFFSET       4u
#define MXSAFE_REG_FORMATS_FORMAT_A_WIDTH        8u
#define MXSAFE_REG_FORMATS_FORMAT_W_OFFSET       12u
#define MXSAFE_REG_FORMATS_FORMAT_W_WIDTH        8u
#define MXSAFE_REG_WIDTHS                        0x10u
#define MXSAFE_REG_WIDTHS_WORD_BYTES_OFFSET      0u
#define MXSAFE_REG_WIDTHS_WORD_BYTES_WIDTH       16u
#define MXSAFE_REG_WIDTHS_DATA_WIDTH_OFFSET      16u
#define MXSAFE_REG_WIDTHS_DATA_WIDTH_WIDTH       16u
#define MXSAFE_REG_A_BEATS                       0x14u
#define MXSAFE_REG_W_BEATS                       0x18u
#define MXSAFE_REG_OUT_BEATS                     0x1Cu
#define MXSAFE_REG_VECTOR                        0x20u
#define MXSAFE_REG_VECTOR_BANK_BEATS_OFFSET      0u
#define MXSAFE_REG_VECTOR_BANK_BEATS_WIDTH       16u
#define MXSAFE_REG_VECTOR_BANKS_OFFSET           16u
#define MXSAFE_REG_VECTOR_BANKS_WIDTH            16u
#define MXSAFE_REG_REDUCTION_BEATS               0x24u
#define MXSAFE_REG_QUEUE_DEPTH                   0x28u
#define MXSAFE_REG_UNITS                         0x2Cu
#define MXSAFE_REG_UNITS_FUNCTIONS_OFFSET        0u
#define MXSAFE_REG_UNITS_FUNCTIONS_WIDTH         15u
#define MXSAFE_REG_UNITS_AFFINE_OFFSET           15u
#define MXSAFE_REG_UNITS_AFFINE_WIDTH            1u
#define MXSAFE_REG_UNITS_REDUCTIONS_OFFSET       16u
#define MXSAFE_REG_UNITS_REDUCTIONS_WIDTH        4u
#define MXSAFE_REG_UNITS_COMPACT_OFFSET          20u
#define MXSAFE_REG_UNITS_COMPACT_WIDTH           1u
#define MXSAFE_REG_UNITS_SWEEPS_OFFSET           21u
#define MXSAFE_REG_UNITS_SWEEPS_WIDTH            1u
#define MXSAFE_REG_UNITS_COUNTS_OFFSET           22u
#define MXSAFE_REG_UNITS_COUNTS_WIDTH            1u
#define MXSAFE_REG_UNITS_CONVERSIONS_OFFSET      24u
#define MXSAFE_REG_UNITS_CONVERSIONS_WIDTH       3u
#define MXSAFE_REG_CONTROL                       0x40u
#define MXSAFE_REG_CONTROL_START_OFFSET          0u
#define MXSAFE_REG_CONTROL_START_WIDTH           1u
#define MXSAFE_REG_CONTROL_RESET_OFFSET          1u
#define MXSAFE_REG_CONTROL_RESET_WIDTH           1u
#define MXSAFE_REG_STATUS                        0x44u
#define MXSAFE_REG_STATUS_RUNNING_OFFSET         0u
#define MXSAFE_REG_STATUS_RUNNING_WIDTH          1u
#define MXSAFE_REG_STATUS_DONE_OFFSET            1u
#define MXSAFE_REG_STATUS_DONE_WIDTH             1u
#define MXSAFE_REG_STATUS_ERROR_OFFSET           2u
#define MXSAFE_REG_STATUS_ERROR_WIDTH            1u
#define MXSAFE_REG_ERROR                         0x48u
#define MXSAFE_REG_ERROR_DESCRIPTOR              0x4Cu
#define MXSAFE_REG_INTERRUPT_ENABLE              0x50u
#define MXSAFE_REG_INTERRUPT_ENABLE_DONE_OFFSET  0u
#define MXSAFE_REG_INTERRUPT_ENABLE_DONE_WIDTH   1u
#define MXSAFE_REG_INTERRUPT_ENABLE_ERROR_OFFSET 1u
#define MXSAFE_REG_INTERRUPT_ENABLE_ERROR_WIDTH  1u
#define MXSAFE_REG_INTERRUPT                     0x54u
#define MXSAFE_REG_INTERRUPT_DONE_OFFSET         0u
#define MXSAFE_REG_INTERRUPT_DONE_WIDTH          1u
#define MXSAFE_REG_INTERRUPT_ERROR_OFFSET        1u
#define MXSAFE_REG_INTERRUPT_ERROR_WIDTH         1u
#define MXSAFE_REG_PROGRAM_LOW                   0x58u
#define MXSAFE_REG_PROGRAM_HIGH                  0x5Cu
#define MXSAFE_REG_PROGRAM_LENGTH                0x60u
#define MXSAFE_REG_BASE_LOW                      0x68u
#define MXSAFE_REG_BASE_HIGH                     0x6Cu
#define MXSAFE_REG_CYCLES_LOW                    0x80u
#define MXSAFE_REG_CYCLES_HIGH                   0x84u
#define MXSAFE_REG_ARRAY_BUSY_LOW                0x88u
#define MXSAFE_REG_ARRAY_BUSY_HIGH               0x8Cu
#define MXSAFE_REG_WAIT_LOAD_LOW                 0x90u
#define MXSAFE_REG_WAIT_LOAD_HIGH                0x94u
#define MXSAFE_REG_WAIT_VECTOR_LOW               0x98u
#define MXSAFE_REG_WAIT_VECTOR_HIGH              0x9Cu
#define MXSAFE_REG_WAIT_STORE_LOW                0xA0u
#define MXSAFE_REG_WAIT_STORE_HIGH               0xA4u
#define MXSAFE_REG_WORDS_READ_LOW                0xA8u
#define MXSAFE_REG_WORDS_READ_HIGH               0xACu
#define MXSAFE_REG_WORDS_WRITTEN_LOW             0xB0u
#define MXSAFE_REG_WORDS_WRITTEN_HIGH            0xB4u

/* Registers of machines that count accesses. */
#define MXSAFE_REG_DESCRIPTORS_LOW               0x100u
#define MXSAFE_REG_DESCRIPTORS_HIGH              0x104u
#define MXSAFE_REG_A_CODES_READ_LOW              0x108u
#define MXSAFE_REG_A_CODES_READ_HIGH             0x10Cu
#define MXSAFE_REG_A_CODES_WRITTEN_LOW           0x110u
#define MXSAFE_REG_A_CODES_WRITTEN_HIGH          0x114u
#define MXSAFE_REG_A_SCALES_READ_LOW             0x118u
#define MXSAFE_REG_A_SCALES_READ_HIGH            0x11Cu
#define MXSAFE_REG_A_SCALES_WRITTEN_LOW          0x120u
#define MXSAFE_REG_A_SCALES_WRITTEN_HIGH         0x124u
#define MXSAFE_REG_W_CODES_READ_LOW              0x128u
#define MXSAFE_REG_W_CODES_READ_HIGH             0x12Cu
#define MXSAFE_REG_W_CODES_WRITTEN_LOW           0x130u
#define MXSAFE_REG_W_CODES_WRITTEN_HIGH          0x134u
#define MXSAFE_REG_W_SCALES_READ_LOW             0x138u
#define MXSAFE_REG_W_SCALES_READ_HIGH            0x13Cu
#define MXSAFE_REG_W_SCALES_WRITTEN_LOW          0x140u
#define MXSAFE_REG_W_SCALES_WRITTEN_HIGH         0x144u
#define MXSAFE_REG_OUT_CODES_READ_LOW            0x148u
#define MXSAFE_REG_OUT_CODES_READ_HIGH           0x14Cu
#define MXSAFE_REG_OUT_CODES_WRITTEN_LOW         0x150u
#define MXSAFE_REG_OUT_CODES_WRITTEN_HIGH        0x154u
#define MXSAFE_REG_OUT_SCALES_READ_LOW           0x158u
#define MXSAFE_REG_OUT_SCALES_READ_HIGH          0x15Cu
#define MXSAFE_REG_OUT_SCALES_WRITTEN_LOW        0x160u
#define MXSAFE_REG_OUT_SCALES_WRITTEN_HIGH       0x164u
#define MXSAFE_REG_VECTOR_READ_X_LOW             0x168u
#define MXSAFE_REG_VECTOR_READ_X_HIGH            0x16Cu
#define MXSAFE_REG_VECTOR_READ_Y_LOW             0x170u
#define MXSAFE_REG_VECTOR_READ_Y_HIGH            0x174u
#define MXSAFE_REG_VECTOR_READ_STORE_LOW         0x178u
#define MXSAFE_REG_VECTOR_READ_STORE_HIGH        0x17Cu
#define MXSAFE_REG_VECTOR_WRITTEN_GEMM_LOW       0x180u
#define MXSAFE_REG_VECTOR_WRITTEN_GEMM_HIGH      0x184u
#define MXSAFE_REG_VECTOR_WRITTEN_VECTOR_LOW     0x188u
#define MXSAFE_REG_VECTOR_WRITTEN_VECTOR_HIGH    0x18Cu
#define MXSAFE_REG_VECTOR_WRITTEN_LOAD_LOW       0x190u
#define MXSAFE_REG_VECTOR_WRITTEN_LOAD_HIGH      0x194u
#define MXSAFE_REG_ARITHMETIC_ADD_LOW            0x198u
#define MXSAFE_REG_ARITHMETIC_ADD_HIGH           0x19Cu
#define MXSAFE_REG_ARITHMETIC_MULTIPLY_LOW       0x1A0u
#define MXSAFE_REG_ARITHMETIC_MULTIPLY_HIGH      0x1A4u
#define MXSAFE_REG_ARITHMETIC_AXPY_LOW           0x1A8u
#define MXSAFE_REG_ARITHMETIC_AXPY_HIGH          0x1ACu
#define MXSAFE_REG_ARITHMETIC_SCALE_LOW          0x1B0u
#define MXSAFE_REG_ARITHMETIC_SCALE_HIGH         0x1B4u
#define MXSAFE_REG_AFFINE_LOW                    0x1B8u
#define MXSAFE_REG_AFFINE_HIGH                   0x1BCu
#define MXSAFE_REG_FUNCTION_RELU_LOW             0x1C0u
#define MXSAFE_REG_FUNCTION_RELU_HIGH            0x1C4u
#define MXSAFE_REG_FUNCTION_RELU_DERIVATIVE_LOW  0x1C8u
#define MXSAFE_REG_FUNCTION_RELU_DERIVATIVE_HIGH 0x1CCu
#define MXSAFE_REG_FUNCTION_GELU_LOW             0x1D0u
#define MXSAFE_REG_FUNCTION_GELU_HIGH            0x1D4u
#define MXSAFE_REG_FUNCTION_SILU_LOW             0x1D8u
#define MXSAFE_REG_FUNCTION_SILU_HIGH            0x1DCu
#define MXSAFE_REG_FUNCTION_TANH_LOW             0x1E0u
#define MXSAFE_REG_FUNCTION_TANH_HIGH            0x1E4u
#define MXSAFE_REG_FUNCTION_GELU_DERIVATIVE_LOW  0x1E8u
#define MXSAFE_REG_FUNCTION_GELU_DERIVATIVE_HIGH 0x1ECu
#define MXSAFE_REG_FUNCTION_SILU_DERIVATIVE_LOW  0x1F0u
#define MXSAFE_REG_FUNCTION_SILU_DERIVATIVE_HIGH 0x1F4u
#define MXSAFE_REG_FUNCTION_TANH_DERIVATIVE_LOW  0x1F8u
#define MXSAFE_REG_FUNCTION_TANH_DERIVATIVE_HIGH 0x1FCu
#define MXSAFE_REG_FUNCTION_EXP_LOW              0x200u
#define MXSAFE_REG_FUNCTION_EXP_HIGH             0x204u
#define MXSAFE_REG_FUNCTION_SIGMOID_LOW          0x208u
#define MXSAFE_REG_FUNCTION_SIGMOID_HIGH         0x20Cu
#define MXSAFE_REG_FUNCTION_RECIPROCAL_LOW       0x210u
#define MXSAFE_REG_FUNCTION_RECIPROCAL_HIGH      0x214u
#define MXSAFE_REG_FUNCTION_RSQRT_LOW            0x218u
#define MXSAFE_REG_FUNCTION_RSQRT_HIGH           0x21Cu
#define MXSAFE_REG_SOFTMAX_WHOLE_LOW             0x220u
#define MXSAFE_REG_SOFTMAX_WHOLE_HIGH            0x224u
#define MXSAFE_REG_SOFTMAX_LARGEST_LOW           0x228u
#define MXSAFE_REG_SOFTMAX_LARGEST_HIGH          0x22Cu
#define MXSAFE_REG_SOFTMAX_SUMS_LOW              0x230u
#define MXSAFE_REG_SOFTMAX_SUMS_HIGH             0x234u
#define MXSAFE_REG_SOFTMAX_RESULTS_LOW           0x238u
#define MXSAFE_REG_SOFTMAX_RESULTS_HIGH          0x23Cu
#define MXSAFE_REG_LAYER_NORM_WHOLE_LOW          0x240u
#define MXSAFE_REG_LAYER_NORM_WHOLE_HIGH         0x244u
#define MXSAFE_REG_LAYER_NORM_LARGEST_LOW        0x248u
#define MXSAFE_REG_LAYER_NORM_LARGEST_HIGH       0x24Cu
#define MXSAFE_REG_LAYER_NORM_SUMS_LOW           0x250u
#define MXSAFE_REG_LAYER_NORM_SUMS_HIGH          0x254u
#define MXSAFE_REG_LAYER_NORM_SQUARES_LOW        0x258u
#define MXSAFE_REG_LAYER_NORM_SQUARES_HIGH       0x25Cu
#define MXSAFE_REG_LAYER_NORM_RESULTS_LOW        0x260u
#define MXSAFE_REG_LAYER_NORM_RESULTS_HIGH       0x264u
#define MXSAFE_REG_RMS_NORM_WHOLE_LOW            0x268u
#define MXSAFE_REG_RMS_NORM_WHOLE_HIGH           0x26Cu
#define MXSAFE_REG_RMS_NORM_LARGEST_LOW          0x270u
#define MXSAFE_REG_RMS_NORM_LARGEST_HIGH         0x274u
#define MXSAFE_REG_RMS_NORM_SQUARES_LOW          0x278u
#define MXSAFE_REG_RMS_NORM_SQUARES_HIGH         0x27Cu
#define MXSAFE_REG_RMS_NORM_RESULTS_LOW          0x280u
#define MXSAFE_REG_RMS_NORM_RESULTS_HIGH         0x284u
#define MXSAFE_REG_SUM_WHOLE_LOW                 0x288u
#define MXSAFE_REG_SUM_WHOLE_HIGH                0x28Cu
#define MXSAFE_REG_SUM_LARGEST_LOW               0x290u
#define MXSAFE_REG_SUM_LARGEST_HIGH              0x294u
#define MXSAFE_REG_SUM_SUMS_LOW                  0x298u
#define MXSAFE_REG_SUM_SUMS_HIGH                 0x29Cu
#define MXSAFE_REG_CONVERT_BLOCKS_LOW            0x2A0u
#define MXSAFE_REG_CONVERT_BLOCKS_HIGH           0x2A4u
#define MXSAFE_REG_CONVERT_TILES_LOW             0x2A8u
#define MXSAFE_REG_CONVERT_TILES_HIGH            0x2ACu
#define MXSAFE_REG_CONVERT_NUMBERS_LOW           0x2B0u
#define MXSAFE_REG_CONVERT_NUMBERS_HIGH          0x2B4u

/* Queues, as bits of wait and signal. */
#define MXSAFE_QUEUE_LOAD   1u
#define MXSAFE_QUEUE_GEMM   2u
#define MXSAFE_QUEUE_VECTOR 4u
#define MXSAFE_QUEUE_STORE  8u

/* Formats of operands, as registers show them. */
#define MXSAFE_FORMAT_MXSF       0u
#define MXSAFE_FORMAT_MXFP8_E2M5 1u
#define MXSAFE_FORMAT_MXFP8_E4M3 2u
#define MXSAFE_FORMAT_MXFP8_E5M2 3u
#define MXSAFE_FORMAT_MXFP6_E3M2 4u
#define MXSAFE_FORMAT_MXFP6_E2M3 5u
#define MXSAFE_FORMAT_MXFP4_E2M1 6u
#define MXSAFE_FORMAT_MXINT8     7u
#define MXSAFE_FORMAT_BF16       8u

/* Values of opcode. */
#define MXSAFE_OPCODE_LOAD   1u
#define MXSAFE_OPCODE_GEMM   2u
#define MXSAFE_OPCODE_VECTOR 3u
#define MXSAFE_OPCODE_STORE  4u

/* Values of load_buffer. */
#define MXSAFE_LOAD_BUFFER_A_CODES  0u
#define MXSAFE_LOAD_BUFFER_A_SCALES 1u
#define MXSAFE_LOAD_BUFFER_W_CODES  2u
#define MXSAFE_LOAD_BUFFER_W_SCALES 3u
#define MXSAFE_LOAD_BUFFER_VECTOR   4u

/* Values of store_buffer. */
#define MXSAFE_STORE_BUFFER_OUT_CODES  0u
#define MXSAFE_STORE_BUFFER_OUT_SCALES 1u
#define MXSAFE_STORE_BUFFER_VECTOR     2u

/* Values of packing. */
#define MXSAFE_PACKING_NONE    0u
#define MXSAFE_PACKING_NIBBLES 1u
#define MXSAFE_PACKING_TILES   2u

/* Values of arithmetic. */
#define MXSAFE_ARITHMETIC_NONE     0u
#define MXSAFE_ARITHMETIC_ADD      1u
#define MXSAFE_ARITHMETIC_MULTIPLY 2u
#define MXSAFE_ARITHMETIC_AXPY     3u
#define MXSAFE_ARITHMETIC_SCALE    4u

/* Values of y_mode. */
#define MXSAFE_Y_MODE_BEATS    0u
#define MXSAFE_Y_MODE_NUMBERS  1u
#define MXSAFE_Y_MODE_CONSTANT 2u

/* Values of function. */
#define MXSAFE_FUNCTION_NONE            0u
#define MXSAFE_FUNCTION_RELU            1u
#define MXSAFE_FUNCTION_RELU_DERIVATIVE 2u
#define MXSAFE_FUNCTION_GELU            3u
#define MXSAFE_FUNCTION_SILU            4u
#define MXSAFE_FUNCTION_TANH            5u
#define MXSAFE_FUNCTION_GELU_DERIVATIVE 6u
#define MXSAFE_FUNCTION_SILU_DERIVATIVE 7u
#define MXSAFE_FUNCTION_TANH_DERIVATIVE 8u
#define MXSAFE_FUNCTION_EXP             9u
#define MXSAFE_FUNCTION_SIGMOID         10u
#define MXSAFE_FUNCTION_RECIPROCAL      11u
#define MXSAFE_FUNCTION_RSQRT           12u

/* Values of reduction. */
#define MXSAFE_REDUCTION_NONE       0u
#define MXSAFE_REDUCTION_SOFTMAX    1u
#define MXSAFE_REDUCTION_LAYER_NORM 2u
#define MXSAFE_REDUCTION_RMS_NORM   3u
#define MXSAFE_REDUCTION_SUM        4u

/* Values of sweep. */
#define MXSAFE_SWEEP_WHOLE   0u
#define MXSAFE_SWEEP_LARGEST 1u
#define MXSAFE_SWEEP_SUMS    2u
#define MXSAFE_SWEEP_SQUARES 3u
#define MXSAFE_SWEEP_RESULTS 4u

/* Values of convert. */
#define MXSAFE_CONVERT_NONE    0u
#define MXSAFE_CONVERT_BLOCKS  1u
#define MXSAFE_CONVERT_TILES   2u
#define MXSAFE_CONVERT_NUMBERS 3u

/* Values of target. */
#define MXSAFE_TARGET_OUT 0u
#define MXSAFE_TARGET_A   1u
#define MXSAFE_TARGET_W   2u

/* Values of error. */
#define MXSAFE_ERROR_NONE      0u
#define MXSAFE_ERROR_OPCODE    1u
#define MXSAFE_ERROR_MALFORMED 2u
#define MXSAFE_ERROR_ADDRESS   3u
#define MXSAFE_ERROR_READ      4u
#define MXSAFE_ERROR_WRITE     5u
#define MXSAFE_ERROR_DEADLOCK  6u
#define MXSAFE_ERROR_FETCH     7u
#define MXSAFE_ERROR_ALIGNMENT 8u
#define MXSAFE_ERROR_SWEEP     9u

/* Fields of load. */
#define MXSAFE_LOAD_OPCODE_OFFSET    0u
#define MXSAFE_LOAD_OPCODE_WIDTH     4u
#define MXSAFE_LOAD_WAIT_OFFSET      4u
#define MXSAFE_LOAD_WAIT_WIDTH       4u
#define MXSAFE_LOAD_SIGNAL_OFFSET    8u
#define MXSAFE_LOAD_SIGNAL_WIDTH     4u
#define MXSAFE_LOAD_BUFFER_OFFSET    16u
#define MXSAFE_LOAD_BUFFER_WIDTH     3u
#define MXSAFE_LOAD_TRANSPOSE_OFFSET 19u
#define MXSAFE_LOAD_TRANSPOSE_WIDTH  1u
#define MXSAFE_LOAD_WIDEN_OFFSET     20u
#define MXSAFE_LOAD_WIDEN_WIDTH      1u
#define MXSAFE_LOAD_PACKING_OFFSET   21u
#define MXSAFE_LOAD_PACKING_WIDTH    2u
#define MXSAFE_LOAD_ADDRESS_OFFSET   23u
#define MXSAFE_LOAD_ADDRESS_WIDTH    32u
#define MXSAFE_LOAD_COUNT_0_OFFSET   55u
#define MXSAFE_LOAD_COUNT_0_WIDTH    12u
#define MXSAFE_LOAD_COUNT_1_OFFSET   67u
#define MXSAFE_LOAD_COUNT_1_WIDTH    10u
#define MXSAFE_LOAD_COUNT_2_OFFSET   77u
#define MXSAFE_LOAD_COUNT_2_WIDTH    10u
#define MXSAFE_LOAD_COUNT_3_OFFSET   87u
#define MXSAFE_LOAD_COUNT_3_WIDTH    8u
#define MXSAFE_LOAD_STRIDE_1_OFFSET  95u
#define MXSAFE_LOAD_STRIDE_1_WIDTH   20u
#define MXSAFE_LOAD_STRIDE_2_OFFSET  115u
#define MXSAFE_LOAD_STRIDE_2_WIDTH   20u
#define MXSAFE_LOAD_STRIDE_3_OFFSET  135u
#define MXSAFE_LOAD_STRIDE_3_WIDTH   20u
#define MXSAFE_LOAD_TO_OFFSET        155u
#define MXSAFE_LOAD_TO_WIDTH         17u
#define MXSAFE_LOAD_STEP_0_OFFSET    172u
#define MXSAFE_LOAD_STEP_0_WIDTH     15u
#define MXSAFE_LOAD_STEP_1_OFFSET    187u
#define MXSAFE_LOAD_STEP_1_WIDTH     15u
#define MXSAFE_LOAD_STEP_2_OFFSET    202u
#define MXSAFE_LOAD_STEP_2_WIDTH     15u
#define MXSAFE_LOAD_STEP_3_OFFSET    217u
#define MXSAFE_LOAD_STEP_3_WIDTH     15u
#define MXSAFE_LOAD_PART_OFFSET      232u
#define MXSAFE_LOAD_PART_WIDTH       3u

/* Fields of gemm. */
#define MXSAFE_GEMM_OPCODE_OFFSET          0u
#define MXSAFE_GEMM_OPCODE_WIDTH           4u
#define MXSAFE_GEMM_WAIT_OFFSET            4u
#define MXSAFE_GEMM_WAIT_WIDTH             4u
#define MXSAFE_GEMM_SIGNAL_OFFSET          8u
#define MXSAFE_GEMM_SIGNAL_WIDTH           4u
#define MXSAFE_GEMM_A_CODES_OFFSET         16u
#define MXSAFE_GEMM_A_CODES_WIDTH          16u
#define MXSAFE_GEMM_A_STRIDE_OFFSET        32u
#define MXSAFE_GEMM_A_STRIDE_WIDTH         16u
#define MXSAFE_GEMM_A_SCALES_OFFSET        48u
#define MXSAFE_GEMM_A_SCALES_WIDTH         16u
#define MXSAFE_GEMM_A_SCALE_STRIDE_OFFSET  64u
#define MXSAFE_GEMM_A_SCALE_STRIDE_WIDTH   12u
#define MXSAFE_GEMM_W_CODES_OFFSET         76u
#define MXSAFE_GEMM_W_CODES_WIDTH          16u
#define MXSAFE_GEMM_W_STRIDE_OFFSET        92u
#define MXSAFE_GEMM_W_STRIDE_WIDTH         16u
#define MXSAFE_GEMM_W_SCALES_OFFSET        108u
#define MXSAFE_GEMM_W_SCALES_WIDTH         16u
#define MXSAFE_GEMM_W_SCALE_STRIDE_OFFSET  124u
#define MXSAFE_GEMM_W_SCALE_STRIDE_WIDTH   12u
#define MXSAFE_GEMM_STRIPS_A_OFFSET        136u
#define MXSAFE_GEMM_STRIPS_A_WIDTH         8u
#define MXSAFE_GEMM_STRIPS_W_OFFSET        144u
#define MXSAFE_GEMM_STRIPS_W_WIDTH         8u
#define MXSAFE_GEMM_BEATS_OFFSET           152u
#define MXSAFE_GEMM_BEATS_WIDTH            13u
#define MXSAFE_GEMM_BLOCK_OFFSET           165u
#define MXSAFE_GEMM_BLOCK_WIDTH            7u
#define MXSAFE_GEMM_LAST_ROWS_OFFSET       172u
#define MXSAFE_GEMM_LAST_ROWS_WIDTH        6u
#define MXSAFE_GEMM_RESULT_OFFSET          178u
#define MXSAFE_GEMM_RESULT_WIDTH           14u
#define MXSAFE_GEMM_RESULT_STRIDE_A_OFFSET 192u
#define MXSAFE_GEMM_RESULT_STRIDE_A_WIDTH  14u
#define MXSAFE_GEMM_RESULT_STRIDE_W_OFFSET 206u
#define MXSAFE_GEMM_RESULT_STRIDE_W_WIDTH  14u
#define MXSAFE_GEMM_CLEAR_OFFSET           220u
#define MXSAFE_GEMM_CLEAR_WIDTH            1u
#define MXSAFE_GEMM_WRITE_OFFSET           221u
#define MXSAFE_GEMM_WRITE_WIDTH            1u

/* Fields of vector. */
#define MXSAFE_VECTOR_OPCODE_OFFSET           0u
#define MXSAFE_VECTOR_OPCODE_WIDTH            4u
#define MXSAFE_VECTOR_WAIT_OFFSET             4u
#define MXSAFE_VECTOR_WAIT_WIDTH              4u
#define MXSAFE_VECTOR_SIGNAL_OFFSET           8u
#define MXSAFE_VECTOR_SIGNAL_WIDTH            4u
#define MXSAFE_VECTOR_X_OFFSET                16u
#define MXSAFE_VECTOR_X_WIDTH                 14u
#define MXSAFE_VECTOR_Y_OFFSET                30u
#define MXSAFE_VECTOR_Y_WIDTH                 14u
#define MXSAFE_VECTOR_D_OFFSET                44u
#define MXSAFE_VECTOR_D_WIDTH                 14u
#define MXSAFE_VECTOR_X_STRIDE_OFFSET         58u
#define MXSAFE_VECTOR_X_STRIDE_WIDTH          14u
#define MXSAFE_VECTOR_Y_STRIDE_OFFSET         72u
#define MXSAFE_VECTOR_Y_STRIDE_WIDTH          14u
#define MXSAFE_VECTOR_D_STRIDE_OFFSET         86u
#define MXSAFE_VECTOR_D_STRIDE_WIDTH          14u
#define MXSAFE_VECTOR_OUT_OFFSET              100u
#define MXSAFE_VECTOR_OUT_WIDTH               16u
#define MXSAFE_VECTOR_OUT_STRIDE_OFFSET       116u
#define MXSAFE_VECTOR_OUT_STRIDE_WIDTH        14u
#define MXSAFE_VECTOR_OUT_SCALES_OFFSET       130u
#define MXSAFE_VECTOR_OUT_SCALES_WIDTH        15u
#define MXSAFE_VECTOR_OUT_SCALE_STRIDE_OFFSET 145u
#define MXSAFE_VECTOR_OUT_SCALE_STRIDE_WIDTH  10u
#define MXSAFE_VECTOR_BEATS_OFFSET            155u
#define MXSAFE_VECTOR_BEATS_WIDTH             13u
#define MXSAFE_VECTOR_ROWS_OFFSET             168u
#define MXSAFE_VECTOR_ROWS_WIDTH              8u
#define MXSAFE_VECTOR_PARAMETER_OFFSET        176u
#define MXSAFE_VECTOR_PARAMETER_WIDTH         32u
#define MXSAFE_VECTOR_ARITHMETIC_OFFSET       208u
#define MXSAFE_VECTOR_ARITHMETIC_WIDTH        3u
#define MXSAFE_VECTOR_Y_MODE_OFFSET           211u
#define MXSAFE_VECTOR_Y_MODE_WIDTH            2u
#define MXSAFE_VECTOR_FUNCTION_OFFSET         213u
#define MXSAFE_VECTOR_FUNCTION_WIDTH          4u
#define MXSAFE_VECTOR_REDUCTION_OFFSET        217u
#define MXSAFE_VECTOR_REDUCTION_WIDTH         3u
#define MXSAFE_VECTOR_CAUSAL_OFFSET           220u
#define MXSAFE_VECTOR_CAUSAL_WIDTH            1u
#define MXSAFE_VECTOR_TO_VECTOR_OFFSET        221u
#define MXSAFE_VECTOR_TO_VECTOR_WIDTH         1u
#define MXSAFE_VECTOR_CONVERT_OFFSET          222u
#define MXSAFE_VECTOR_CONVERT_WIDTH           2u
#define MXSAFE_VECTOR_TARGET_OFFSET           224u
#define MXSAFE_VECTOR_TARGET_WIDTH            2u
#define MXSAFE_VECTOR_LANES_OFFSET            226u
#define MXSAFE_VECTOR_LANES_WIDTH             6u
#define MXSAFE_VECTOR_AFFINE_OFFSET           232u
#define MXSAFE_VECTOR_AFFINE_WIDTH            1u
#define MXSAFE_VECTOR_SWEEP_OFFSET            233u
#define MXSAFE_VECTOR_SWEEP_WIDTH             3u
#define MXSAFE_VECTOR_CLEAR_OFFSET            236u
#define MXSAFE_VECTOR_CLEAR_WIDTH             1u
#define MXSAFE_VECTOR_ENDS_OFFSET             237u
#define MXSAFE_VECTOR_ENDS_WIDTH              1u

/* Fields of store. */
#define MXSAFE_STORE_OPCODE_OFFSET   0u
#define MXSAFE_STORE_OPCODE_WIDTH    4u
#define MXSAFE_STORE_WAIT_OFFSET     4u
#define MXSAFE_STORE_WAIT_WIDTH      4u
#define MXSAFE_STORE_SIGNAL_OFFSET   8u
#define MXSAFE_STORE_SIGNAL_WIDTH    4u
#define MXSAFE_STORE_BUFFER_OFFSET   16u
#define MXSAFE_STORE_BUFFER_WIDTH    3u
#define MXSAFE_STORE_UNUSED_OFFSET   19u
#define MXSAFE_STORE_UNUSED_WIDTH    1u
#define MXSAFE_STORE_NARROW_OFFSET   20u
#define MXSAFE_STORE_NARROW_WIDTH    1u
#define MXSAFE_STORE_PACKING_OFFSET  21u
#define MXSAFE_STORE_PACKING_WIDTH   2u
#define MXSAFE_STORE_ADDRESS_OFFSET  23u
#define MXSAFE_STORE_ADDRESS_WIDTH   32u
#define MXSAFE_STORE_COUNT_0_OFFSET  55u
#define MXSAFE_STORE_COUNT_0_WIDTH   12u
#define MXSAFE_STORE_COUNT_1_OFFSET  67u
#define MXSAFE_STORE_COUNT_1_WIDTH   10u
#define MXSAFE_STORE_COUNT_2_OFFSET  77u
#define MXSAFE_STORE_COUNT_2_WIDTH   10u
#define MXSAFE_STORE_COUNT_3_OFFSET  87u
#define MXSAFE_STORE_COUNT_3_WIDTH   8u
#define MXSAFE_STORE_STRIDE_1_OFFSET 95u
#define MXSAFE_STORE_STRIDE_1_WIDTH  20u
#define MXSAFE_STORE_STRIDE_2_OFFSET 115u
#define MXSAFE_STORE_STRIDE_2_WIDTH  20u
#define MXSAFE_STORE_STRIDE_3_OFFSET 135u
#define MXSAFE_STORE_STRIDE_3_WIDTH  20u
#define MXSAFE_STORE_FROM_OFFSET     155u
#define MXSAFE_STORE_FROM_WIDTH      17u
#define MXSAFE_STORE_STEP_0_OFFSET   172u
#define MXSAFE_STORE_STEP_0_WIDTH    15u
#define MXSAFE_STORE_STEP_1_OFFSET   187u
#define MXSAFE_STORE_STEP_1_WIDTH    15u
#define MXSAFE_STORE_STEP_2_OFFSET   202u
#define MXSAFE_STORE_STEP_2_WIDTH    15u
#define MXSAFE_STORE_STEP_3_OFFSET   217u
#define MXSAFE_STORE_STEP_3_WIDTH    15u

/* A descriptor: bytes in memory, the lowest bits first. */
typedef struct {
    uint8_t bytes[MXSAFE_DESCRIPTOR_BYTES];
} mxsafe_descriptor;

/* Makes a descriptor of a kind, with all other fields 0. */
static inline void mxsafe_clear(mxsafe_descriptor *d, uint32_t opcode)
{
    memset(d->bytes, 0, sizeof d->bytes);
    d->bytes[0] = (uint8_t)opcode;
}

/* Gives a field a value, of which bits beyond the field's width are dropped. */
static inline void mxsafe_set(mxsafe_descriptor *d, unsigned offset, unsigned width, uint32_t value)
{
    unsigned i;
    for (i = 0; i < width; i++) {
        uint8_t mask = (uint8_t)(1u << ((offset + i) & 7u));
        if (value >> i & 1u)
            d->bytes[(offset + i) >> 3] |= mask;
        else
            d->bytes[(offset + i) >> 3] &= (uint8_t)~mask;
    }
}

/* The value of a field. */
static inline uint32_t mxsafe_get(const mxsafe_descriptor *d, unsigned offset, unsigned width)
{
    uint32_t value = 0;
    unsigned i;
    for (i = 0; i < width; i++)
        value |= (uint32_t)(d->bytes[(offset + i) >> 3] >> ((offset + i) & 7u) & 1u) << i;
    return value;
}

#endif /* MXSAFE_MACHINE_H */
