/* SPDX-License-Identifier: Apache-2.0 */
/* The operator table. docs/operators.md is made from it. */
#include <string.h>

#include "graph/ops/rows.h"

/* Rows by the kind of their functions: element-wise, computed, a view, built from other operators.
 * Rows of OPEN macros take open extents, rows of FIRST macros only those of input 0. */
#define SCALAR(name, since, inputs, infer, scalar, attrs)                                          \
  {                                                                                                \
    name, "", since, inputs, inputs, 1, 0, BP_FUSE_ELEMENTWISE, attrs, bp__infer_##infer,          \
        bp__scalar_##scalar, bp__compute_elementwise, NULL, NULL, BP_OPEN_ALL,                     \
        BP_BLOCKED_ELEMENTWISE                                                                     \
  }
#define CONTINUOUS(name, since, inputs, infer, scalar, attrs)                                      \
  {                                                                                                \
    name, "", since, inputs, inputs, 1, 0, BP_FUSE_ELEMENTWISE, attrs, bp__infer_##infer,          \
        bp__scalar_##scalar, bp__compute_continuous, NULL, NULL, BP_OPEN_ALL,                      \
        BP_BLOCKED_ELEMENTWISE                                                                     \
  }
#define COMPUTED(name, since, min, max, known, fusion, attrs, infer, compute)                      \
  {                                                                                                \
    name, "", since, min, max, 1, known, fusion, attrs, bp__infer_##infer, NULL,                   \
        bp__compute_##compute, NULL, NULL, BP_OPEN_NONE, BP_BLOCKED_NOT                            \
  }
#define OPEN_COMPUTED(name, since, min, max, known, fusion, attrs, infer, compute)                 \
  {                                                                                                \
    name, "", since, min, max, 1, known, fusion, attrs, bp__infer_##infer, NULL,                   \
        bp__compute_##compute, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT                             \
  }
/* A row whose expansion only checks its inputs, whose extents may be open, and leaves the node to
 * be computed. */
#define CHECKED(name, since, min, max, fusion, attrs, row)                                         \
  {                                                                                                \
    name, "", since, min, max, 1, 0, fusion, attrs, bp__infer_##row, NULL, bp__compute_##row,      \
        NULL, bp__expand_##row, BP_OPEN_ALL, BP_BLOCKED_NOT                                        \
  }
#define FIRST_COMPUTED(name, since, min, max, known, fusion, attrs, infer, compute, blocked)       \
  {                                                                                                \
    name, "", since, min, max, 1, known, fusion, attrs, bp__infer_##infer, NULL,                   \
        bp__compute_##compute, NULL, NULL, BP_OPEN_FIRST, blocked                                  \
  }
#define VIEW(name, since, min, max, attrs, infer)                                                  \
  {                                                                                                \
    name, "", since, min, max, 1, 2, BP_FUSE_VIEW, attrs, bp__infer_##infer, NULL, NULL,           \
        bp__fold_view, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT                                           \
  }
#define EXPANDED(name, since, min, max, outputs, attrs, expand)                                    \
  {                                                                                                \
    name, "", since, min, max, outputs, 0, BP_FUSE_OPAQUE, attrs, NULL, NULL, NULL, NULL,          \
        bp__expand_##expand, BP_OPEN_NONE, BP_BLOCKED_NOT                                          \
  }
#define OPEN_EXPANDED(name, since, min, max, outputs, attrs, expand)                               \
  {                                                                                                \
    name, "", since, min, max, outputs, 0, BP_FUSE_OPAQUE, attrs, NULL, NULL, NULL, NULL,          \
        bp__expand_##expand, BP_OPEN_ALL, BP_BLOCKED_NOT                                           \
  }
#define FIRST_EXPANDED(name, since, min, max, outputs, attrs, expand)                              \
  {                                                                                                \
    name, "", since, min, max, outputs, 0, BP_FUSE_OPAQUE, attrs, NULL, NULL, NULL, NULL,          \
        bp__expand_##expand, BP_OPEN_FIRST, BP_BLOCKED_NOT                                         \
  }

#define MICROSOFT(name, min, max, outputs, attrs, expand)                                          \
  {                                                                                                \
    name, "com.microsoft", 1, min, max, outputs, 0, BP_FUSE_OPAQUE, attrs, NULL, NULL, NULL, NULL, \
        bp__expand_##expand, BP_OPEN_ALL, BP_BLOCKED_NOT                                           \
  }

#define WINDOW_ATTRS "auto_pad:s kernel_shape:is strides:is pads:is dilations:is "
#define EXPERT_ATTRS                                                                               \
  "activation_type:s activation_alpha:f activation_beta:f k:i normalize_routing_weights:i "        \
  "swiglu_fusion:i swiglu_limit:f swiglu_limit_after_activation:i use_sparse_mixer:i "
#define GATE_ATTRS                                                                                 \
  "activations:ss activation_alpha:fs activation_beta:fs clip:f direction:s hidden_size:i "
#define RECURRENT_ATTRS GATE_ATTRS "layout:i "
#define ATTENTION_ATTRS                                                                            \
  "is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i scale:f softcap:f "            \
  "softmax_precision:i left_window_size:i right_window_size:i"
#define STEP_ATTRS "reverse:i activations:ss numbers:fs clip:f hidden:i is_dot:i "
#define STEPS(name, outputs, attrs, compute)                                                       \
  {                                                                                                \
    name, "backplane", 1, 2, 9, outputs, 0, BP_FUSE_OPAQUE, STEP_ATTRS attrs,                      \
        bp__infer_recurrent_steps, NULL, bp__compute_##compute, NULL, NULL, BP_OPEN_ALL,           \
        BP_BLOCKED_NOT                                                                             \
  }
#define REDUCE(name, since, fusion, blocked)                                                       \
  {                                                                                                \
    name, "", since, 1, 2, 1, 2, fusion, "axes:is keepdims:i noop_with_empty_axes:i",              \
        bp__infer_reduce, NULL, bp__compute_reduce, NULL, bp__expand_reduce, BP_OPEN_ALL, blocked  \
  }

static const BpOp table[] = {
    /* Element-wise operators of one operand. */
    CONTINUOUS("Abs", 6, 1, elementwise, abs, ""),
    CONTINUOUS("Neg", 6, 1, elementwise, neg, ""),
    SCALAR("Sqrt", 6, 1, floats, sqrt, ""),
    CONTINUOUS("Exp", 6, 1, floats, exp, ""),
    SCALAR("Log", 6, 1, floats, log, ""),
    CONTINUOUS("Sin", 7, 1, floats, sin, ""),
    CONTINUOUS("Cos", 7, 1, floats, cos, ""),
    SCALAR("Tan", 7, 1, floats, tan, ""),
    SCALAR("Asin", 7, 1, floats, asin, ""),
    SCALAR("Acos", 7, 1, floats, acos, ""),
    CONTINUOUS("Atan", 7, 1, floats, atan, ""),
    SCALAR("Sinh", 9, 1, floats, sinh, ""),
    SCALAR("Cosh", 9, 1, floats, cosh, ""),
    CONTINUOUS("Tanh", 6, 1, floats, tanh, ""),
    CONTINUOUS("Asinh", 9, 1, floats, asinh, ""),
    SCALAR("Acosh", 9, 1, floats, acosh, ""),
    SCALAR("Atanh", 9, 1, floats, atanh, ""),
    CONTINUOUS("Erf", 9, 1, elementwise, erf, ""),
    SCALAR("Floor", 6, 1, floats, floor, ""),
    SCALAR("Ceil", 6, 1, floats, ceil, ""),
    SCALAR("Round", 11, 1, floats, round, ""),
    SCALAR("Sign", 9, 1, elementwise, sign, ""),
    CONTINUOUS("Reciprocal", 6, 1, floats, reciprocal, ""),
    CONTINUOUS("Relu", 6, 1, elementwise, relu, ""),
    CONTINUOUS("LeakyRelu", 6, 1, floats, leaky_relu, "alpha:f"),
    SCALAR("ThresholdedRelu", 10, 1, floats, thresholded_relu, "alpha:f"),
    CONTINUOUS("Elu", 6, 1, floats, elu, "alpha:f"),
    CONTINUOUS("Selu", 6, 1, floats, selu, "alpha:f gamma:f"),
    CONTINUOUS("Celu", 12, 1, floats, celu, "alpha:f"),
    CONTINUOUS("Sigmoid", 6, 1, floats, sigmoid, ""),
    CONTINUOUS("HardSigmoid", 6, 1, floats, hard_sigmoid, "alpha:f beta:f"),
    CONTINUOUS("HardSwish", 14, 1, floats, hard_swish, ""),
    CONTINUOUS("Softplus", 1, 1, floats, softplus, ""),
    CONTINUOUS("Softsign", 1, 1, floats, softsign, ""),
    CONTINUOUS("Mish", 18, 1, floats, mish, ""),
    CONTINUOUS("Gelu", 20, 1, floats, gelu, "approximate:s"),
    CONTINUOUS("Swish", 24, 1, floats, swish, "alpha:f"),
    SCALAR("Shrink", 9, 1, elementwise, shrink, "bias:f lambd:f"),
    SCALAR("Not", 1, 1, logic, not, ""),
    SCALAR("BitwiseNot", 18, 1, elementwise, bit_not, ""),
    SCALAR("IsNaN", 9, 1, predicate, is_nan, ""),
    SCALAR("IsInf", 10, 1, predicate, is_inf, "detect_negative:i detect_positive:i"),
    {"Cast", "", 6, 1, 1, 1, 0, BP_FUSE_ELEMENTWISE, "to:i saturate:i round_mode:s", bp__infer_cast,
     bp__scalar_cast, bp__compute_elementwise, bp__fold_cast, bp__expand_cast, BP_OPEN_ALL,
     BP_BLOCKED_ELEMENTWISE},
    {"Clip", "", 6, 1, 3, 1, 0, BP_FUSE_ELEMENTWISE, "min:f max:f", bp__infer_clip, bp__scalar_clip,
     bp__compute_continuous, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_ELEMENTWISE},

    /* Element-wise operators of two and more operands. */
    CONTINUOUS("Add", 7, 2, elementwise, add, ""),
    CONTINUOUS("Sub", 7, 2, elementwise, sub, ""),
    CONTINUOUS("Mul", 7, 2, elementwise, mul, ""),
    CONTINUOUS("Div", 7, 2, elementwise, div, ""),
    SCALAR("Mod", 10, 2, elementwise, mod, "fmod:i"),
    {"Pow", "", 7, 2, 2, 1, 0, BP_FUSE_ELEMENTWISE, "", bp__infer_pow, bp__scalar_pow,
     bp__compute_elementwise, NULL, bp__expand_pow, BP_OPEN_ALL, BP_BLOCKED_ELEMENTWISE},
    CONTINUOUS("PRelu", 7, 2, prelu, prelu, ""),
    SCALAR("Equal", 7, 2, compare, equal, ""),
    SCALAR("Less", 7, 2, compare, less, ""),
    SCALAR("LessOrEqual", 12, 2, compare, less_or_equal, ""),
    SCALAR("Greater", 7, 2, compare, greater, ""),
    SCALAR("GreaterOrEqual", 12, 2, compare, greater_or_equal, ""),
    SCALAR("And", 7, 2, logic, and, ""),
    SCALAR("Or", 7, 2, logic, or, ""),
    SCALAR("Xor", 7, 2, logic, xor, ""),
    SCALAR("BitwiseAnd", 18, 2, elementwise, bit_and, ""),
    SCALAR("BitwiseOr", 18, 2, elementwise, bit_or, ""),
    SCALAR("BitwiseXor", 18, 2, elementwise, bit_xor, ""),
    SCALAR("BitShift", 11, 2, bit_shift, bit_shift, "direction:s"),
    SCALAR("Where", 9, 3, where, where, ""),
    OPEN_EXPANDED("CastLike", 15, 2, 2, 1, "saturate:i round_mode:s", cast_like),
    OPEN_EXPANDED("BitCast", 26, 1, 1, 1, "to:i", bit_cast),
    {"Min", "", 6, 1, -1, 1, 0, BP_FUSE_ELEMENTWISE, "", bp__infer_elementwise, bp__scalar_min,
     bp__compute_continuous, NULL, bp__expand_extreme, BP_OPEN_ALL, BP_BLOCKED_ELEMENTWISE},
    {"Max", "", 6, 1, -1, 1, 0, BP_FUSE_ELEMENTWISE, "", bp__infer_elementwise, bp__scalar_max,
     bp__compute_continuous, NULL, bp__expand_extreme, BP_OPEN_ALL, BP_BLOCKED_ELEMENTWISE},
    OPEN_EXPANDED("Sum", 6, 1, -1, 1, "", sum),
    OPEN_EXPANDED("SwiGLU", 28, 2, 2, 1, "alpha:f", swiglu),
    OPEN_EXPANDED("Mean", 6, 1, -1, 1, "", mean),

    /* Operators on shapes, and constants. */
    VIEW("Reshape", 5, 1, 2, "allowzero:i shape:is", reshape),
    VIEW("Flatten", 1, 1, 1, "axis:i", flatten),
    VIEW("Squeeze", 1, 1, 2, "axes:is", squeeze),
    VIEW("Unsqueeze", 1, 1, 2, "axes:is", unsqueeze),
    OPEN_EXPANDED("Identity", 1, 1, 1, 1, "", identity),
    OPEN_EXPANDED("Dropout", 7, 1, 3, 2, "ratio:f seed:i", dropout),
    OPEN_EXPANDED("Constant", 1, 0, 0, 1,
                  "value:t value_float:f value_floats:fs value_int:i value_ints:is", constant),
    OPEN_EXPANDED("ConstantOfShape", 9, 1, 1, 1, "value:t", constant_of_shape),
    OPEN_EXPANDED("Range", 11, 3, 3, 1, "stash_type:i", range),
    {"Shape", "", 1, 1, 1, 1, 0, BP_FUSE_OPAQUE, "start:i end:i", bp__infer_shape, NULL, NULL,
     bp__fold_shape, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Size", "", 1, 1, 1, 1, 0, BP_FUSE_OPAQUE, "", bp__infer_size, NULL, NULL, bp__fold_size, NULL,
     BP_OPEN_ALL, BP_BLOCKED_NOT},

    /* Operators that move elements. */
    {"Transpose", "", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "perm:is", bp__infer_transpose, NULL,
     bp__compute_transpose, bp__fold_transpose, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    /* The producers are not fused: a fused producer would be evaluated for every output element,
     * including those taken from other inputs. */
    {"Concat", "", 4, 1, -1, 1, 0, BP_FUSE_OPAQUE, "axis:i", bp__infer_concat, NULL,
     bp__compute_concat, NULL, bp__expand_concat, BP_OPEN_ALL, BP_BLOCKED_CONCAT},
    {"Slice", "", 1, 1, 5, 1, 30, BP_FUSE_INJECTIVE, "starts:is ends:is axes:is", bp__infer_slice,
     NULL, bp__compute_slice, bp__fold_slice, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    OPEN_EXPANDED("Split", 2, 1, 2, -1, "axis:i split:is num_outputs:i", split),
    OPEN_COMPUTED("Pad", 2, 1, 4, 10, BP_FUSE_INJECTIVE, "mode:s pads:is value:f", pad, pad),
    OPEN_EXPANDED("CenterCropPad", 18, 2, 2, 1, "axes:is", center_crop_pad),
    OPEN_COMPUTED("Expand", 8, 2, 2, 2, BP_FUSE_INJECTIVE, "", expand, expand),
    {"Tile", "", 6, 2, 2, 1, 2, BP_FUSE_INJECTIVE, "", bp__infer_tile, NULL, bp__compute_tile, NULL,
     bp__expand_tile, BP_OPEN_ALL, BP_BLOCKED_NOT},
    OPEN_COMPUTED("Gather", 1, 2, 2, 0, BP_FUSE_INJECTIVE, "axis:i", gather, gather),
    CHECKED("GatherElements", 11, 2, 2, BP_FUSE_INJECTIVE, "axis:i", gather_elements),
    CHECKED("GatherND", 11, 2, 2, BP_FUSE_INJECTIVE, "batch_dims:i", gather_nd),
    CHECKED("ReverseSequence", 10, 2, 2, BP_FUSE_INJECTIVE, "batch_axis:i time_axis:i",
            reverse_sequence),
    {"DepthToSpace", "", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "blocksize:i mode:s",
     bp__infer_depth_to_space, NULL, bp__compute_depth_to_space, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_DEPTH_TO_SPACE},
    FIRST_COMPUTED("SpaceToDepth", 1, 1, 1, 0, BP_FUSE_INJECTIVE, "blocksize:i mode:s",
                   space_to_depth, space_to_depth, BP_BLOCKED_NOT),
    OPEN_COMPUTED("Trilu", 14, 1, 2, 2, BP_FUSE_INJECTIVE, "upper:i", trilu, trilu),
    OPEN_EXPANDED("AffineGrid", 20, 2, 2, 1, "align_corners:i", affine_grid),
    CHECKED("GridSample", 16, 2, 2, BP_FUSE_OPAQUE, "mode:s padding_mode:s align_corners:i",
            grid_sample),
    OPEN_EXPANDED("Resize", 10, 1, 4, 1,
                  "mode:s coordinate_transformation_mode:s nearest_mode:s cubic_coeff_a:f "
                  "exclude_outside:i extrapolation_value:f antialias:i axes:is "
                  "keep_aspect_ratio_policy:s",
                  resize),
    OPEN_EXPANDED("Upsample", 7, 1, 2, 1, "mode:s scales:fs", upsample),

    OPEN_EXPANDED("OneHot", 9, 3, 3, 1, "axis:i", one_hot),
    OPEN_EXPANDED("EyeLike", 9, 1, 1, 1, "dtype:i k:i", eye_like),
    OPEN_EXPANDED("NonZero", 9, 1, 1, 1, "", non_zero),
    OPEN_EXPANDED("Compress", 9, 2, 2, 1, "axis:i", compress),
    OPEN_EXPANDED("Unique", 11, 1, 1, 4, "axis:i sorted:i", unique),
    OPEN_EXPANDED("NonMaxSuppression", 10, 2, 5, 1, "center_point_box:i", non_max_suppression),

    /* Statements. */
    CHECKED("ScatterElements", 11, 3, 3, BP_FUSE_OPAQUE, "axis:i reduction:s", scatter_elements),
    CHECKED("Scatter", 9, 3, 3, BP_FUSE_OPAQUE, "axis:i", scatter_elements),
    CHECKED("ScatterND", 11, 3, 3, BP_FUSE_OPAQUE, "reduction:s", scatter_nd),
    {"TopK", "", 1, 1, 2, 2, 2, BP_FUSE_OPAQUE, "axis:i k:i largest:i sorted:i", bp__infer_topk,
     NULL, bp__compute_topk, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},

    /* Reductions. */
    REDUCE("ReduceSum", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceMean", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceMax", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceMin", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceProd", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceL1", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceL2", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceSumSquare", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceLogSum", 1, BP_FUSE_REDUCTION, BP_BLOCKED_REDUCE),
    REDUCE("ReduceLogSumExp", 1, BP_FUSE_OPAQUE, BP_BLOCKED_NOT),
    OPEN_COMPUTED("ArgMax", 1, 1, 1, 0, BP_FUSE_OPAQUE, "axis:i keepdims:i select_last_index:i",
                  arg_reduce, arg_reduce),
    OPEN_COMPUTED("ArgMin", 1, 1, 1, 0, BP_FUSE_OPAQUE, "axis:i keepdims:i select_last_index:i",
                  arg_reduce, arg_reduce),
    OPEN_COMPUTED("Softmax", 1, 1, 1, 0, BP_FUSE_OPAQUE, "axis:i", softmax, softmax),
    OPEN_COMPUTED("LogSoftmax", 1, 1, 1, 0, BP_FUSE_OPAQUE, "axis:i", softmax, softmax),
    OPEN_COMPUTED("CumSum", 11, 2, 2, 2, BP_FUSE_OPAQUE, "exclusive:i reverse:i", running, running),
    OPEN_COMPUTED("CumProd", 26, 2, 2, 2, BP_FUSE_OPAQUE, "exclusive:i reverse:i", running,
                  running),
    OPEN_EXPANDED("Hardmax", 1, 1, 1, 1, "axis:i", hardmax),
    OPEN_EXPANDED("GlobalAveragePool", 1, 1, 1, 1, "", global_pool),
    OPEN_EXPANDED("GlobalMaxPool", 1, 1, 1, 1, "", global_pool),
    OPEN_EXPANDED("GlobalLpPool", 2, 1, 1, 1, "p:i", global_lp_pool),

    /* Convolution, pooling, products. */
    FIRST_COMPUTED("Conv", 1, 2, 3, 0, BP_FUSE_ANCHOR, WINDOW_ATTRS "group:i", conv, conv,
                   BP_BLOCKED_CONV),
    FIRST_COMPUTED("ConvTranspose", 1, 2, 3, 0, BP_FUSE_ANCHOR,
                   WINDOW_ATTRS "group:i output_padding:is output_shape:is", conv_transpose,
                   conv_transpose, BP_BLOCKED_NOT),
    {"MaxPool", "", 1, 1, 1, 2, 0, BP_FUSE_ANCHOR, WINDOW_ATTRS "ceil_mode:i storage_order:i",
     bp__infer_pool, NULL, bp__compute_pool, NULL, NULL, BP_OPEN_FIRST, BP_BLOCKED_POOL},
    OPEN_EXPANDED("MaxUnpool", 9, 2, 3, 1, "kernel_shape:is pads:is strides:is", max_unpool),
    FIRST_COMPUTED("AveragePool", 7, 1, 1, 0, BP_FUSE_ANCHOR,
                   WINDOW_ATTRS "ceil_mode:i count_include_pad:i", pool, pool, BP_BLOCKED_POOL),
    FIRST_COMPUTED("LpPool", 2, 1, 1, 0, BP_FUSE_ANCHOR, WINDOW_ATTRS "ceil_mode:i p:i", pool, pool,
                   BP_BLOCKED_NOT),
    {"Col2Im", "", 18, 3, 3, 1, 6, BP_FUSE_OPAQUE, "dilations:is pads:is strides:is",
     bp__infer_col2im, NULL, bp__compute_col2im, NULL, NULL, BP_OPEN_FIRST, BP_BLOCKED_NOT},
    OPEN_EXPANDED("DeformConv", 19, 3, 5, 1,
                  "kernel_shape:is strides:is pads:is dilations:is group:i offset_group:i",
                  deform_conv),
    CHECKED("RoiAlign", 10, 3, 3, BP_FUSE_OPAQUE,
            "coordinate_transformation_mode:s mode:s output_height:i output_width:i "
            "sampling_ratio:i spatial_scale:f",
            roi_align),
    OPEN_COMPUTED("MaxRoiPool", 1, 2, 2, 0, BP_FUSE_OPAQUE, "pooled_shape:is spatial_scale:f",
                  max_roi_pool, max_roi_pool),
    FIRST_COMPUTED("LRN", 1, 1, 1, 0, BP_FUSE_OPAQUE, "alpha:f beta:f bias:f size:i", lrn, lrn,
                   BP_BLOCKED_NOT),
    OPEN_COMPUTED("MatMul", 1, 2, 2, 0, BP_FUSE_ANCHOR, "", matmul, matmul),
    OPEN_COMPUTED("Det", 11, 1, 1, 0, BP_FUSE_OPAQUE, "", det, det),
    OPEN_EXPANDED("Einsum", 12, 1, -1, 1, "equation:s", einsum),
    OPEN_EXPANDED("Gemm", 7, 2, 3, 1, "alpha:f beta:f transA:i transB:i", gemm),

    /* Quantised. */
    MICROSOFT("GatherBlockQuantized", 3, 4, 1, "bits:i block_size:i gather_axis:i quantize_axis:i",
              gather_block_quantized),
    MICROSOFT("MoE", 3, 8, 1, EXPERT_ATTRS, moe),
    MICROSOFT("QMoE", 3, 15, 1,
              EXPERT_ATTRS "accuracy_level:i block_size:i expert_weight_bits:i "
                           "fc1_expert_weight_bits:i fc2_expert_weight_bits:i "
                           "fc3_expert_weight_bits:i quant_type:s weights_prepacked:i",
              qmoe),
    MICROSOFT("MatMulBnb4", 3, 3, 1, "K:i N:i block_size:i quant_type:i training_mode:i transB:i",
              matmul_bnb4),
    MICROSOFT("MatMulNBits", 3, 6, 1, "K:i N:i bits:i block_size:i accuracy_level:i", matmul_nbits),
    OPEN_EXPANDED("QuantizeLinear", 10, 2, 3, 1,
                  "axis:i saturate:i block_size:i output_dtype:i precision:i", quantize_linear),
    OPEN_EXPANDED("DequantizeLinear", 10, 2, 3, 1, "axis:i block_size:i output_dtype:i",
                  dequantize_linear),
    OPEN_EXPANDED("DynamicQuantizeLinear", 11, 1, 1, 3, "", dynamic_quantize_linear),
    OPEN_EXPANDED("MatMulInteger", 10, 2, 4, 1, "", matmul_integer),
    MICROSOFT("MatMulIntegerToFloat", 4, 7, 1, "", matmul_integer_to_float),
    OPEN_EXPANDED("ConvInteger", 10, 2, 4, 1, WINDOW_ATTRS "group:i", conv_integer),
    OPEN_EXPANDED("QLinearMatMul", 10, 8, 8, 1, "", qlinear_matmul),
    OPEN_EXPANDED("QLinearConv", 10, 8, 9, 1, WINDOW_ATTRS "group:i", qlinear_conv),
    MICROSOFT("QuantizeLinear", 2, 3, 1, "axis:i block_size:i", quantize_linear),
    MICROSOFT("DequantizeLinear", 2, 3, 1, "axis:i block_size:i", dequantize_linear),
    MICROSOFT("QLinearAdd", 1, 8, 1, "", qlinear_binary),
    MICROSOFT("QLinearMul", 1, 8, 1, "", qlinear_binary),
    MICROSOFT("QLinearLeakyRelu", 1, 5, 1, "alpha:f", qlinear_unary),
    MICROSOFT("QLinearSigmoid", 1, 5, 1, "", qlinear_unary),
    MICROSOFT("QLinearSoftmax", 1, 5, 1, "axis:i opset:i", qlinear_softmax),
    MICROSOFT("QLinearGlobalAveragePool", 1, 5, 1, "channels_last:i", qlinear_unary),
    MICROSOFT("QLinearAveragePool", 1, 5, 1,
              WINDOW_ATTRS "ceil_mode:i channels_last:i count_include_pad:i", qlinear_unary),
    MICROSOFT("QLinearConcat", 5, -1, 1, "axis:i", qlinear_concat),
    MICROSOFT("QLinearWhere", 1, 9, 1, "", qlinear_where),
    MICROSOFT("QGemm", 6, 9, 1, "alpha:f transA:i transB:i", qgemm),
    MICROSOFT("DynamicQuantizeMatMul", 3, 5, 1, "", dynamic_quantize_matmul),
    MICROSOFT("DynamicQuantizeLSTM", 3, 12, 3, GATE_ATTRS "input_forget:i", dynamic_quantize_lstm),
    MICROSOFT("NhwcMaxPool", 1, 1, 1, WINDOW_ATTRS "ceil_mode:i", nhwc_max_pool),

    /* Normalisation. */
    OPEN_EXPANDED("BatchNormalization", 7, 5, 5, 5,
                  "epsilon:f momentum:f training_mode:i spatial:i", batch_normalization),
    OPEN_EXPANDED("InstanceNormalization", 6, 3, 3, 1, "epsilon:f", instance_normalization),
    /* onnxruntime writes LayerNormalization in all operator sets. */
    OPEN_EXPANDED("LayerNormalization", 1, 2, 3, 3, "axis:i epsilon:f stash_type:i",
                  layer_normalization),
    FIRST_EXPANDED("GroupNormalization", 18, 3, 3, 1, "epsilon:f num_groups:i stash_type:i",
                   group_normalization),
    OPEN_EXPANDED("LpNormalization", 1, 1, 1, 1, "axis:i p:i", lp_normalization),

    OPEN_EXPANDED("RMSNormalization", 23, 2, 2, 1, "axis:i epsilon:f stash_type:i",
                  rms_normalization),
    OPEN_EXPANDED("SimplifiedLayerNormalization", 1, 2, 2, 1, "axis:i epsilon:f stash_type:i",
                  rms_normalization),
    OPEN_EXPANDED("MeanVarianceNormalization", 9, 1, 1, 1, "axes:is", mean_variance_normalization),

    /* Operators that optimisers write in place of chains of operators. */
    MICROSOFT("Gelu", 1, 1, 1, "", bias_gelu),
    MICROSOFT("BiasGelu", 2, 2, 1, "", bias_gelu),
    MICROSOFT("FastGelu", 1, 2, 1, "", fast_gelu),
    MICROSOFT("QuickGelu", 1, 1, 1, "alpha:f", quick_gelu),
    MICROSOFT("FusedMatMul", 2, 2, 1, "alpha:f transA:i transB:i transBatchA:i transBatchB:i",
              fused_matmul),
    MICROSOFT("FusedConv", 2, 4, 1, WINDOW_ATTRS "group:i activation:s activation_params:fs",
              fused_conv),
    MICROSOFT("FusedGemm", 2, 3, 1,
              "alpha:f beta:f transA:i transB:i activation:s activation_alpha:f activation_beta:f "
              "activation_gamma:f",
              fused_gemm),
    MICROSOFT("SkipLayerNormalization", 3, 5, 4, "epsilon:f", skip_layer_normalization),
    MICROSOFT("SkipSimplifiedLayerNormalization", 3, 4, 4, "epsilon:f",
              skip_simplified_layer_normalization),
    MICROSOFT("EmbedLayerNormalization", 1, 9, 3, "epsilon:f mask_index_type:i",
              embed_layer_normalization),

    /* Losses. */
    OPEN_EXPANDED("NegativeLogLikelihoodLoss", 12, 2, 3, 1, "ignore_index:i reduction:s",
                  negative_log_likelihood_loss),
    OPEN_EXPANDED("SoftmaxCrossEntropyLoss", 12, 2, 3, 2, "ignore_index:i reduction:s",
                  softmax_cross_entropy_loss),

    /* States. */
    CHECKED("TensorScatter", 24, 2, 3, BP_FUSE_INJECTIVE, "axis:i mode:s", tensor_scatter),
    OPEN_EXPANDED("CausalConvWithState", 27, 2, 4, 2, "activation:s", causal_conv),

    /* Spectra. */
    EXPANDED("HannWindow", 17, 1, 1, 1, "output_datatype:i periodic:i", window),
    EXPANDED("HammingWindow", 17, 1, 1, 1, "output_datatype:i periodic:i", window),
    EXPANDED("BlackmanWindow", 17, 1, 1, 1, "output_datatype:i periodic:i", window),
    EXPANDED("MelWeightMatrix", 17, 5, 5, 1, "output_datatype:i", mel_weight_matrix),
    OPEN_EXPANDED("DFT", 17, 1, 3, 1, "axis:i inverse:i onesided:i", dft),
    OPEN_EXPANDED("STFT", 17, 2, 4, 1, "onesided:i", stft),

    /* Attention. */
    OPEN_EXPANDED("RotaryEmbedding", 23, 3, 4, 1,
                  "interleaved:i num_heads:i rotary_embedding_dim:i", rotary_embedding),
    OPEN_EXPANDED("Attention", 23, 3, 7, 4, ATTENTION_ATTRS, attention),
    OPEN_EXPANDED("LinearAttention", 27, 3, 6, 2,
                  "chunk_size:i kv_num_heads:i q_num_heads:i scale:f update_rule:s",
                  linear_attention),
    MICROSOFT("RotaryEmbedding", 4, 4, 1,
              "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f",
              microsoft_rotary_embedding),
    MICROSOFT("Attention", 2, 6, 2,
              "do_rotary:i mask_filter_value:f num_heads:i past_present_share_buffer:i "
              "qkv_hidden_sizes:is scale:f unidirectional:i",
              microsoft_attention),
    MICROSOFT("QAttention", 5, 9, 2,
              "do_rotary:i mask_filter_value:f num_heads:i past_present_share_buffer:i scale:f "
              "unidirectional:i",
              quantized_attention),
    MICROSOFT("MultiHeadAttention", 1, 8, 3,
              "mask_filter_value:f num_heads:i scale:f unidirectional:i", multi_head_attention),
    MICROSOFT("GroupQueryAttention", 1, 12, 3,
              "do_rotary:i kv_num_heads:i local_window_size:i num_heads:i rotary_interleaved:i "
              "scale:f smooth_softmax:i softcap:f",
              group_query_attention),

    /* Recurrent layers. */
    OPEN_EXPANDED("LSTM", 7, 3, 8, 3, RECURRENT_ATTRS "input_forget:i", lstm),
    OPEN_EXPANDED("GRU", 7, 3, 6, 2, RECURRENT_ATTRS "linear_before_reset:i", gru),
    OPEN_EXPANDED("RNN", 7, 3, 6, 2, RECURRENT_ATTRS, rnn),

    /* Operators made by other rows and by passes. */
    {"Part", "backplane", 1, 0, -1, -1, 0, BP_FUSE_OPAQUE, "function:s", NULL, NULL, NULL, NULL,
     NULL, BP_OPEN_NONE, BP_BLOCKED_NOT},
    {"ViewAs", "backplane", 1, 1, 1, 1, 0, BP_FUSE_VIEW, "to:i shape:is", bp__infer_view_as, NULL,
     NULL, bp__fold_view, NULL, BP_OPEN_NONE, BP_BLOCKED_NOT},
    {"Unpack", "backplane", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "bits:i is_signed:i count:i",
     bp__infer_unpack, NULL, bp__compute_unpack, NULL, NULL, BP_OPEN_NONE, BP_BLOCKED_NOT},
    {"Pack", "backplane", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "bits:i", bp__infer_pack, NULL,
     bp__compute_pack, NULL, NULL, BP_OPEN_NONE, BP_BLOCKED_NOT},
    {"DecodeFloat", "backplane", 1, 1, 1, 1, 0, BP_FUSE_ELEMENTWISE, "kind:i",
     bp__infer_decode_float, bp__scalar_decode_float, bp__compute_elementwise, NULL, NULL,
     BP_OPEN_ALL, BP_BLOCKED_ELEMENTWISE},
    {"EncodeFloat", "backplane", 1, 1, 1, 1, 0, BP_FUSE_ELEMENTWISE, "kind:i saturate:i",
     bp__infer_encode_float, bp__scalar_encode_float, bp__compute_elementwise, NULL, NULL,
     BP_OPEN_ALL, BP_BLOCKED_ELEMENTWISE},
    {"IntegerPow", "backplane", 1, 2, 2, 1, 0, BP_FUSE_OPAQUE, "", bp__infer_pow, NULL,
     bp__compute_integer_pow, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    STEPS("LSTMSteps", 3, "input_forget:i", lstm_steps),
    STEPS("GRUSteps", 2, "linear_before_reset:i", gru_steps),
    STEPS("RNNSteps", 2, "", rnn_steps),
    {"LinearSteps", "backplane", 1, 3, 6, 2, 0, BP_FUSE_OPAQUE,
     "q_num_heads:i kv_num_heads:i scale:f", bp__infer_linear_steps, NULL, bp__compute_linear_steps,
     NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"DeformSample", "backplane", 1, 2, 3, 1, 0, BP_FUSE_OPAQUE,
     "kernel_shape:is strides:is pads:is dilations:is offset_group:i", bp__infer_deform_sample,
     NULL, bp__compute_deform_sample, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"ResizeAxis", "backplane", 1, 1, 3, 1, 0, BP_FUSE_INJECTIVE, "axis:i repeat:i antialias:i",
     bp__infer_resize_axis, NULL, bp__compute_resize_axis, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_RESIZE},
    {"ResizeIn", "backplane", 1, 3, 3, 1, 0, BP_FUSE_ANCHOR, "axis:i antialias:i",
     bp__infer_resize_axis, NULL, bp__compute_resize_in, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"ResizeTable", "backplane", 1, 2, 2, 1, 2, BP_FUSE_OPAQUE,
     "gives:s axis:i count:i taps:i rest:i mode:s coordinate:s nearest:s is_ratio:i "
     "cubic_a:f exclude_outside:i antialias:i",
     bp__infer_resize_table, NULL, bp__compute_resize_table, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_NOT},
    {"Frames", "backplane", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "step:i length:i", bp__infer_frames,
     NULL, bp__compute_frames, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Block", "backplane", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "block:i", bp__infer_block, NULL,
     bp__compute_block, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Unblock", "backplane", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "channels:i", bp__infer_unblock,
     NULL, bp__compute_unblock, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"ConvBlocked", "backplane", 1, 2, 3, 1, 0, BP_FUSE_ANCHOR,
     "strides:is pads:is dilations:is channels:i is_dot:i pad:i zero:i", bp__infer_conv_blocked,
     NULL, bp__compute_conv_blocked, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Panels", "backplane", 1, 1, 1, 1, 0, BP_FUSE_INJECTIVE, "panel:i", bp__infer_panels, NULL,
     bp__compute_panels, bp__fold_panels, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"MatMulTurned", "backplane", 1, 2, 2, 1, 0, BP_FUSE_ANCHOR, "", bp__infer_matmul_turned, NULL,
     bp__compute_matmul_turned, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Words", "backplane", 1, 1, 1, 1, 0, BP_FUSE_VIEW, "", bp__infer_words, NULL, NULL,
     bp__fold_view, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"MatMulDot", "backplane", 1, 2, 2, 1, 0, BP_FUSE_ANCHOR, "is_dot:i", bp__infer_matmul, NULL,
     bp__compute_matmul, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"MatMulPacked", "backplane", 1, 2, 2, 1, 0, BP_FUSE_ANCHOR, "columns:i is_dot:i",
     bp__infer_matmul_packed, NULL, bp__compute_matmul_packed, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_NOT},
    {"MatMulBits", "backplane", 1, 3, 4, 1, 0, BP_FUSE_ANCHOR, "bits:i table:i accuracy_level:i",
     bp__infer_matmul_bits, NULL, bp__compute_matmul_bits, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"MatMulBitsDot", "backplane", 1, 6, 6, 1, 0, BP_FUSE_ANCHOR, "bits:i step:i",
     bp__infer_matmul_bits_dot, NULL, bp__compute_matmul_bits_dot, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_NOT},
    {"ConvWinograd", "backplane", 1, 2, 3, 1, 0, BP_FUSE_ANCHOR, "tile:is pads:is channels:i",
     bp__infer_conv_winograd, NULL, bp__compute_conv_winograd, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_NOT},
    {"ConvToSpace", "backplane", 1, 2, 3, 1, 0, BP_FUSE_ANCHOR, "channels:i",
     bp__infer_conv_to_space, NULL, bp__compute_conv_to_space, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_NOT},
    {"ConcatBlocked", "backplane", 1, 1, BP_OP_MAX_INPUTS, 1, 0, BP_FUSE_INJECTIVE,
     "block:i part:i channels:is", bp__infer_concat_blocked, NULL, bp__compute_concat_blocked, NULL,
     NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Extents", "backplane", 1, 0, 0, 1, 0, BP_FUSE_OPAQUE, "", bp__infer_extents, NULL,
     bp__compute_extents, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Bind", "backplane", 1, 1, 1, 1, 0, BP_FUSE_VIEW, "complaint:s", bp__infer_bind, NULL, NULL,
     NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"ViewIn", "backplane", 1, 2, 2, 1, 2, BP_FUSE_VIEW, "", bp__infer_view_in, NULL, NULL, NULL,
     NULL, BP_OPEN_ALL, BP_BLOCKED_SHAPED},
    {"ExpandIn", "backplane", 1, 2, 2, 1, 2, BP_FUSE_INJECTIVE, "", bp__infer_view_in, NULL,
     bp__compute_expand_in, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_SHAPED},
    {"SliceIn", "backplane", 1, 2, 2, 1, 2, BP_FUSE_INJECTIVE, "axes:is", bp__infer_slice_in, NULL,
     bp__compute_slice_in, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"TwiceIn", "backplane", 1, 2, 2, 1, 2, BP_FUSE_INJECTIVE, "", bp__infer_view_in, NULL,
     bp__compute_twice_in, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"PadIn", "backplane", 1, 3, 3, 1, 2, BP_FUSE_INJECTIVE, "mode:s", bp__infer_pad_in, NULL,
     bp__compute_pad_in, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Marked", "backplane", 1, 1, 1, 2, 0, BP_FUSE_OPAQUE, "", bp__infer_marked, NULL,
     bp__compute_marked, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Uniques", "backplane", 1, 1, 1, 2, 0, BP_FUSE_OPAQUE, "sorted:i", bp__infer_uniques, NULL,
     bp__compute_uniques, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"KeepBoxes", "backplane", 1, 6, 6, 1, 0, BP_FUSE_OPAQUE, "center_point_box:i",
     bp__infer_keep_boxes, NULL, bp__compute_keep_boxes, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"First", "backplane", 1, 2, 2, 1, 2, BP_FUSE_INJECTIVE, "", bp__infer_view_in, NULL,
     bp__compute_first, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"Counting", "backplane", 1, 0, 0, 1, 0, BP_FUSE_OPAQUE, "start:i step:i count:i",
     bp__infer_counting, NULL, bp__compute_counting, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_NOT},
    {"ArgMax", "backplane", 1, 1, 1, 1, 0, BP_FUSE_OPAQUE, "axis:i",
     bp__infer_arg_reduce_or_nothing, NULL, bp__compute_arg_reduce, NULL, NULL, BP_OPEN_ALL,
     BP_BLOCKED_NOT},
    {"Copy", "backplane", 1, 1, 1, 1, 0, BP_FUSE_ELEMENTWISE, "", bp__infer_elementwise,
     bp__scalar_identity, bp__compute_elementwise, NULL, NULL, BP_OPEN_ALL, BP_BLOCKED_ELEMENTWISE},
};

const BpOp *bp__op_table(int32_t *count) {
  *count = (int32_t)(sizeof(table) / sizeof(table[0]));
  return table;
}

const BpOp *bp__op_find(const char *domain, const char *name) {
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    if (!strcmp(table[i].name, name) && !strcmp(table[i].domain, domain))
      return &table[i];
  return NULL;
}

const char *bp__op_how(const BpOp *op) {
  if (op->fusion == BP_FUSE_VIEW)
    return "a view";
  if (!op->compute)
    return op->expand ? "by other operators" : "from the shape";
  return op->fusion == BP_FUSE_ELEMENTWISE ? "element by element" : "computed";
}
