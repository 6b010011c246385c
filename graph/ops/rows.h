/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that rows of the operator table name, by the file that defines them. */
#ifndef BACKPLANE_GRAPH_OPS_ROWS_H
#define BACKPLANE_GRAPH_OPS_ROWS_H

#include "graph/ops/op.h"

#define BP_ROW_INFER(name)   int bp__infer_##name(BpGraph *graph, BpGraphNode *node)
#define BP_ROW_COMPUTE(name) int bp__compute_##name(const BpOpCompute *op, BpTeTensor **outputs)
#define BP_ROW_SCALAR(name)                                                                        \
  const BpIrNode *bp__scalar_##name(BpIrModule *ir, const BpGraphNode *node,                       \
                                    const BpIrNode *const *args)
#define BP_ROW_FOLD(name)   int bp__fold_##name(BpGraph *graph, BpGraphNode *node)
#define BP_ROW_EXPAND(name) int bp__expand_##name(BpGraph *graph, BpGraphNode *node)

/* elementwise.c */
BP_ROW_INFER(elementwise);
BP_ROW_INFER(floats);
BP_ROW_INFER(logic);     /* inputs of one type, which is the output's; shapes broadcast */
BP_ROW_INFER(compare);   /* inputs of one type, bool output; shapes broadcast */
BP_ROW_INFER(predicate); /* one input, bool output */
BP_ROW_INFER(cast);
BP_ROW_INFER(where);
BP_ROW_INFER(pow);
BP_ROW_INFER(prelu);
BP_ROW_INFER(clip);
BP_ROW_INFER(bit_shift);
BP_ROW_COMPUTE(elementwise); /* computes by the row's scalar function */
BP_ROW_COMPUTE(integer_pow); /* powers of integers, by squaring */
/* Computes by the row's continuous scalar function (bp__op_is_continuous). */
BP_ROW_COMPUTE(continuous);
BP_ROW_FOLD(cast);
BP_ROW_EXPAND(mean);
BP_ROW_EXPAND(sum);
BP_ROW_EXPAND(swiglu);
BP_ROW_EXPAND(bias_gelu);
BP_ROW_EXPAND(fast_gelu);
BP_ROW_EXPAND(quick_gelu);
BP_ROW_EXPAND(extreme); /* Max and Min of any number of inputs but two */
BP_ROW_EXPAND(pow);

/* scalar.c */
BP_ROW_SCALAR(abs);
BP_ROW_SCALAR(neg);
BP_ROW_SCALAR(sqrt);
BP_ROW_SCALAR(exp);
BP_ROW_SCALAR(log);
BP_ROW_SCALAR(sin);
BP_ROW_SCALAR(cos);
BP_ROW_SCALAR(tan);
BP_ROW_SCALAR(asin);
BP_ROW_SCALAR(acos);
BP_ROW_SCALAR(atan);
BP_ROW_SCALAR(sinh);
BP_ROW_SCALAR(cosh);
BP_ROW_SCALAR(tanh);
BP_ROW_SCALAR(asinh);
BP_ROW_SCALAR(acosh);
BP_ROW_SCALAR(atanh);
BP_ROW_SCALAR(erf);
BP_ROW_SCALAR(floor);
BP_ROW_SCALAR(ceil);
BP_ROW_SCALAR(round);
BP_ROW_SCALAR(sign);
BP_ROW_SCALAR(reciprocal);
BP_ROW_SCALAR(relu);
BP_ROW_SCALAR(leaky_relu);
BP_ROW_SCALAR(thresholded_relu);
BP_ROW_SCALAR(elu);
BP_ROW_SCALAR(selu);
BP_ROW_SCALAR(celu);
BP_ROW_SCALAR(sigmoid);
BP_ROW_SCALAR(hard_sigmoid);
BP_ROW_SCALAR(hard_swish);
BP_ROW_SCALAR(softplus);
BP_ROW_SCALAR(softsign);
BP_ROW_SCALAR(mish);
BP_ROW_SCALAR(gelu);
BP_ROW_SCALAR(swish);
BP_ROW_SCALAR(shrink);
BP_ROW_SCALAR(clip);
BP_ROW_SCALAR(prelu);
BP_ROW_SCALAR(cast);
BP_ROW_SCALAR(identity);
BP_ROW_SCALAR(add);
BP_ROW_SCALAR(sub);
BP_ROW_SCALAR(mul);
BP_ROW_SCALAR(div);
BP_ROW_SCALAR(mod);
BP_ROW_SCALAR(pow);
BP_ROW_SCALAR(min);
BP_ROW_SCALAR(max);
BP_ROW_SCALAR(equal);
BP_ROW_SCALAR(less);
BP_ROW_SCALAR(less_or_equal);
BP_ROW_SCALAR(greater);
BP_ROW_SCALAR(greater_or_equal);
BP_ROW_SCALAR(and);
BP_ROW_SCALAR(or);
BP_ROW_SCALAR(xor);
BP_ROW_SCALAR(not );
BP_ROW_SCALAR(is_nan);
BP_ROW_SCALAR(is_inf);
BP_ROW_SCALAR(bit_and);
BP_ROW_SCALAR(bit_or);
BP_ROW_SCALAR(bit_xor);
BP_ROW_SCALAR(bit_not);
BP_ROW_SCALAR(bit_shift);
BP_ROW_SCALAR(where);

/* shape.c: views, and values that shapes determine */
BP_ROW_INFER(reshape);
BP_ROW_INFER(flatten);
BP_ROW_INFER(squeeze);
BP_ROW_INFER(unsqueeze);
BP_ROW_INFER(shape);
BP_ROW_INFER(size);
BP_ROW_FOLD(view);
BP_ROW_FOLD(shape);
BP_ROW_FOLD(size);
BP_ROW_EXPAND(identity);
BP_ROW_EXPAND(dropout);
BP_ROW_EXPAND(constant);
BP_ROW_EXPAND(constant_of_shape);
BP_ROW_EXPAND(range);
BP_ROW_INFER(counting); /* a range of open length */
BP_ROW_COMPUTE(counting);

/* settle.c */
BP_ROW_INFER(extents);
BP_ROW_COMPUTE(extents);

/* move.c: operators that move elements */
BP_ROW_INFER(transpose);
BP_ROW_INFER(concat);
BP_ROW_INFER(slice);
BP_ROW_INFER(pad);
BP_ROW_INFER(expand);
BP_ROW_INFER(gather);
BP_ROW_EXPAND(gather_elements);
BP_ROW_INFER(gather_elements);
BP_ROW_EXPAND(gather_nd);
BP_ROW_INFER(gather_nd);
BP_ROW_INFER(depth_to_space);
BP_ROW_INFER(space_to_depth);
BP_ROW_INFER(trilu);
BP_ROW_INFER(tile);
BP_ROW_COMPUTE(transpose);
BP_ROW_COMPUTE(concat);
BP_ROW_EXPAND(concat); /* expands a Concat of many inputs */
BP_ROW_COMPUTE(slice);
BP_ROW_COMPUTE(pad);
BP_ROW_COMPUTE(gather);
BP_ROW_COMPUTE(gather_elements);
BP_ROW_COMPUTE(gather_nd);
BP_ROW_COMPUTE(depth_to_space);
BP_ROW_COMPUTE(space_to_depth);
BP_ROW_COMPUTE(trilu);
BP_ROW_EXPAND(tile);
BP_ROW_COMPUTE(tile);
BP_ROW_COMPUTE(expand);
BP_ROW_FOLD(transpose);
BP_ROW_FOLD(slice);
BP_ROW_EXPAND(split);
BP_ROW_EXPAND(center_crop_pad);

/* scatter.c: operators that update elements */
BP_ROW_EXPAND(scatter_elements);
BP_ROW_INFER(scatter_elements);
BP_ROW_EXPAND(scatter_nd);
BP_ROW_INFER(scatter_nd);
BP_ROW_COMPUTE(scatter_elements);
BP_ROW_COMPUTE(scatter_nd);

/* topk.c */
BP_ROW_INFER(topk);
BP_ROW_COMPUTE(topk);

/* unique.c */
BP_ROW_EXPAND(unique);
BP_ROW_INFER(uniques);
BP_ROW_COMPUTE(uniques);

/* einsum.c */
BP_ROW_EXPAND(einsum);

/* mark.c: operators that distinguish positions by their indices */
BP_ROW_EXPAND(one_hot);
BP_ROW_EXPAND(hardmax);
BP_ROW_EXPAND(eye_like);
BP_ROW_EXPAND(non_zero);
BP_ROW_EXPAND(compress);
BP_ROW_INFER(marked);
BP_ROW_COMPUTE(marked);
BP_ROW_COMPUTE(first);
BP_ROW_EXPAND(reverse_sequence);
BP_ROW_INFER(reverse_sequence);
BP_ROW_COMPUTE(reverse_sequence);

/* reduce.c */
BP_ROW_INFER(reduce);
BP_ROW_INFER(arg_reduce);
BP_ROW_INFER(arg_reduce_or_nothing);
BP_ROW_INFER(softmax);
BP_ROW_INFER(running);
BP_ROW_COMPUTE(reduce);
BP_ROW_COMPUTE(arg_reduce);
BP_ROW_COMPUTE(softmax);
BP_ROW_COMPUTE(running);
BP_ROW_EXPAND(reduce); /* expands reductions of no elements and of bool */
BP_ROW_EXPAND(global_pool);
BP_ROW_EXPAND(global_lp_pool);

/* conv.c */
BP_ROW_INFER(conv);
BP_ROW_INFER(conv_transpose);
BP_ROW_COMPUTE(conv);
BP_ROW_COMPUTE(conv_transpose);

/* blocked.c: the channel-blocked layout */
BP_ROW_INFER(block);
BP_ROW_INFER(unblock);
BP_ROW_INFER(conv_blocked);
BP_ROW_COMPUTE(block);
BP_ROW_COMPUTE(unblock);
BP_ROW_COMPUTE(conv_blocked);
BP_ROW_INFER(concat_blocked);
BP_ROW_COMPUTE(concat_blocked);
BP_ROW_INFER(conv_to_space);
BP_ROW_COMPUTE(conv_to_space);

/* winograd.c */
BP_ROW_INFER(conv_winograd);
BP_ROW_COMPUTE(conv_winograd);

/* pool.c */
BP_ROW_INFER(pool);
BP_ROW_COMPUTE(pool);
BP_ROW_EXPAND(max_unpool);
BP_ROW_INFER(lrn);
BP_ROW_COMPUTE(lrn);

/* few_bits.c */
BP_ROW_EXPAND(moe);
BP_ROW_EXPAND(qmoe);
BP_ROW_EXPAND(matmul_nbits);
BP_ROW_EXPAND(matmul_bnb4);
BP_ROW_INFER(matmul_bits);
BP_ROW_COMPUTE(matmul_bits);
BP_ROW_INFER(matmul_bits_dot);
BP_ROW_COMPUTE(matmul_bits_dot);

/* quantized_table.c */
BP_ROW_EXPAND(gather_block_quantized);

/* matmul.c */
BP_ROW_INFER(matmul);
BP_ROW_COMPUTE(matmul);
BP_ROW_INFER(panels);
BP_ROW_COMPUTE(panels);
BP_ROW_FOLD(panels);
BP_ROW_INFER(matmul_turned);
BP_ROW_COMPUTE(matmul_turned);
BP_ROW_INFER(words);
BP_ROW_INFER(matmul_packed);
BP_ROW_COMPUTE(matmul_packed);
BP_ROW_EXPAND(gemm);
BP_ROW_EXPAND(fused_matmul);

/* narrow.c: storage-only types */
BP_ROW_EXPAND(cast); /* casts from and to storage-only types */
BP_ROW_EXPAND(cast_like);
BP_ROW_EXPAND(bit_cast);
BP_ROW_INFER(view_as);
BP_ROW_INFER(unpack);
BP_ROW_INFER(pack);
BP_ROW_INFER(decode_float);
BP_ROW_INFER(encode_float);
BP_ROW_COMPUTE(unpack);
BP_ROW_COMPUTE(pack);
BP_ROW_SCALAR(decode_float);
BP_ROW_SCALAR(encode_float);

/* quantize.c: quantised operators, built from others */
BP_ROW_EXPAND(quantize_linear);
BP_ROW_EXPAND(dequantize_linear);
BP_ROW_EXPAND(dynamic_quantize_linear);
BP_ROW_EXPAND(matmul_integer);
BP_ROW_EXPAND(matmul_integer_to_float);
BP_ROW_EXPAND(conv_integer);
BP_ROW_EXPAND(qlinear_matmul);
BP_ROW_EXPAND(qlinear_conv);

/* qlinear.c: quantised operators that compute in floats, built from others */
BP_ROW_EXPAND(qlinear_unary);
BP_ROW_EXPAND(qlinear_binary);
BP_ROW_EXPAND(qlinear_softmax);
BP_ROW_EXPAND(qlinear_where);
BP_ROW_EXPAND(qlinear_concat);
BP_ROW_EXPAND(qgemm);
BP_ROW_EXPAND(dynamic_quantize_matmul);
BP_ROW_EXPAND(nhwc_max_pool);

/* normalize.c: normalisations, built from other operators */
BP_ROW_EXPAND(batch_normalization);
BP_ROW_EXPAND(instance_normalization);
BP_ROW_EXPAND(layer_normalization);
BP_ROW_EXPAND(group_normalization);
BP_ROW_EXPAND(lp_normalization);
BP_ROW_EXPAND(rms_normalization);
BP_ROW_EXPAND(mean_variance_normalization);
BP_ROW_EXPAND(skip_layer_normalization);
BP_ROW_EXPAND(skip_simplified_layer_normalization);
BP_ROW_EXPAND(embed_layer_normalization);

/* loss.c: losses, built from other operators */
BP_ROW_EXPAND(negative_log_likelihood_loss);
BP_ROW_EXPAND(softmax_cross_entropy_loss);

/* state.c: operators with a state */
BP_ROW_EXPAND(tensor_scatter);
BP_ROW_INFER(tensor_scatter);
BP_ROW_COMPUTE(tensor_scatter);
BP_ROW_EXPAND(causal_conv);

/* spectral.c: Fourier transforms, built from products, and their constants */
BP_ROW_EXPAND(window);
BP_ROW_EXPAND(mel_weight_matrix);
BP_ROW_EXPAND(dft);
BP_ROW_EXPAND(stft);
BP_ROW_INFER(frames);
BP_ROW_COMPUTE(frames);

/* grid_sample.c */
BP_ROW_EXPAND(grid_sample);
BP_ROW_INFER(grid_sample);
BP_ROW_COMPUTE(grid_sample);

/* columns.c: pictures and columns of windows */
BP_ROW_EXPAND(deform_conv);
BP_ROW_INFER(deform_sample);
BP_ROW_COMPUTE(deform_sample);
BP_ROW_INFER(col2im);
BP_ROW_COMPUTE(col2im);

/* roi.c: operators on regions of pictures */
BP_ROW_EXPAND(roi_align); /* only checks; the node is computed */
BP_ROW_INFER(roi_align);
BP_ROW_COMPUTE(roi_align);
BP_ROW_INFER(max_roi_pool);
BP_ROW_COMPUTE(max_roi_pool);

/* determinant.c */
BP_ROW_INFER(det);
BP_ROW_COMPUTE(det);

/* linear_attention.c */
BP_ROW_EXPAND(linear_attention);
BP_ROW_INFER(linear_steps);
BP_ROW_COMPUTE(linear_steps);

/* attention.c */
BP_ROW_EXPAND(rotary_embedding);
BP_ROW_EXPAND(attention);

/* multi_head.c: operators of com.microsoft, built from ONNX's */
BP_ROW_EXPAND(microsoft_rotary_embedding);
BP_ROW_EXPAND(microsoft_attention);
BP_ROW_EXPAND(quantized_attention);
BP_ROW_EXPAND(multi_head_attention);

/* fused.c: operators with an activation function of their result */
BP_ROW_EXPAND(fused_conv);
BP_ROW_EXPAND(fused_gemm);

/* group_query.c: GroupQueryAttention of com.microsoft, built from ONNX's operators */
BP_ROW_EXPAND(group_query_attention);

/* recurrent.c: recurrent layers, as products and steps; and the steps of each kind */
BP_ROW_EXPAND(lstm);
BP_ROW_EXPAND(dynamic_quantize_lstm);
BP_ROW_EXPAND(gru);
BP_ROW_EXPAND(rnn);
BP_ROW_INFER(recurrent_steps);
BP_ROW_COMPUTE(lstm_steps); /* lstm.c */
BP_ROW_COMPUTE(gru_steps);  /* gru.c */
BP_ROW_COMPUTE(rnn_steps);  /* rnn.c */

/* affine_grid.c */
BP_ROW_EXPAND(affine_grid);

/* resize.c */
BP_ROW_EXPAND(resize);
BP_ROW_EXPAND(upsample);
BP_ROW_INFER(resize_axis);
BP_ROW_COMPUTE(resize_axis);

/* resize_in.c */
BP_ROW_INFER(resize_table);
BP_ROW_COMPUTE(resize_table);
BP_ROW_COMPUTE(resize_in);

/* bind.c */
BP_ROW_INFER(bind);
BP_ROW_INFER(view_in);
BP_ROW_COMPUTE(expand_in);
BP_ROW_INFER(slice_in);
BP_ROW_COMPUTE(slice_in);

/* axes.c */
BP_ROW_COMPUTE(twice_in);

/* nms.c */
BP_ROW_INFER(keep_boxes);
BP_ROW_COMPUTE(keep_boxes);
BP_ROW_EXPAND(non_max_suppression);

/* bind_pad.c */
BP_ROW_INFER(pad_in);
BP_ROW_COMPUTE(pad_in);

#endif
