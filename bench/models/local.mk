# SPDX-License-Identifier: Apache-2.0
# Real models, compared with other runtimes; Python scripts, started by hand.

EXTRA_DIST += bench/models/bench_memory.py bench/models/bench_models.py bench/models/bench_torch.py \
	bench/models/encoder.py bench/models/peers.py bench/models/tool.py \
	bench/models/requirements.txt bench/models/requirements-compilers.txt
