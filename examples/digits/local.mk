# SPDX-License-Identifier: Apache-2.0
# The digit classifier: model, held-out images, reference, and the script that made them.

digits_images = \
	examples/digits/images/0-0301.png \
	examples/digits/images/1-0783.png \
	examples/digits/images/2-1160.png \
	examples/digits/images/3-1666.png \
	examples/digits/images/4-2386.png \
	examples/digits/images/5-2872.png \
	examples/digits/images/6-3448.png \
	examples/digits/images/7-3710.png \
	examples/digits/images/8-4050.png \
	examples/digits/images/9-4635.png

EXTRA_DIST += examples/digits/README.md examples/digits/train.py examples/digits/requirements.txt \
	examples/digits/digits.onnx examples/digits/digits-int8.onnx \
	examples/digits/quantize.py examples/digits/reference.json $(digits_images)

noinst_PROGRAMS += digits-classify
digits_classify_SOURCES = examples/digits/classify.c
digits_classify_CPPFLAGS = $(AM_CPPFLAGS) $(LIBPNG_CFLAGS)
digits_classify_LDADD = $(LDADD) $(JANSSON_LIBS) $(LIBPNG_LIBS) -lm
