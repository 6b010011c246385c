# SPDX-License-Identifier: Apache-2.0
# Operators.

libbackplane_graph_la_SOURCES += \
	graph/ops/affine_grid.c \
	graph/ops/agree.c \
	graph/ops/attention.c \
	graph/ops/axes.c \
	graph/ops/bind.c graph/ops/bind_pad.c graph/ops/vector.h \
	graph/ops/blocked.c \
	graph/ops/columns.c \
	graph/ops/control.c graph/ops/control.h \
	graph/ops/conv.c \
	graph/ops/determinant.c \
	graph/ops/einsum.c \
	graph/ops/elementwise.c \
	graph/ops/expr.h \
	graph/ops/experts.c \
	graph/ops/few_bits.c \
	graph/ops/fold.c \
	graph/ops/fused.c \
	graph/ops/gather.c \
	graph/ops/grid_sample.c \
	graph/ops/group_query.c \
	graph/ops/linear_attention.c \
	graph/ops/loss.c \
	graph/ops/mark.c \
	graph/ops/matmul.c \
	graph/ops/move.c \
	graph/ops/multi_head.c \
	graph/ops/narrow.c \
	graph/ops/nms.c \
	graph/ops/normalize.c \
	graph/ops/recurrent.c graph/ops/recurrent.h \
	graph/ops/quantized_state.c graph/ops/gru.c graph/ops/lstm.c graph/ops/rnn.c \
	graph/ops/op.c graph/ops/op.h \
	graph/ops/pool.c \
	graph/ops/print.c \
	graph/ops/qlinear.c \
	graph/ops/quantize.c \
	graph/ops/quantized_table.c \
	graph/ops/reduce.c \
	graph/ops/resize.c graph/ops/resize_in.c graph/ops/resize.h \
	graph/ops/roi.c \
	graph/ops/rows.h \
	graph/ops/scalar.c \
	graph/ops/scatter.c \
	graph/ops/settle.c \
	graph/ops/shape.c \
	graph/ops/spectral.c \
	graph/ops/state.c \
	graph/ops/table.c \
	graph/ops/topk.c \
	graph/ops/unique.c graph/ops/windows.c \
	graph/ops/winograd.c graph/ops/winograd.h
