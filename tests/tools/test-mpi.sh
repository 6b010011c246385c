#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `backplane-mpi run` on this machine alone: results equal those of `backplane run`, errors are printed once, and
# written results stay when a rank dies or hangs.
set -u
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/tools/onnx.sh"
digits=$top_srcdir/examples/digits
mpi=$top_builddir/backplane-mpi
[ -x "$mpi" ] || { echo "1..0 # SKIP backplane-mpi is not built"; exit; }
launcher=mpirun
for program in "$top_builddir/.libs/backplane-mpi" "$mpi"; do
  ldd "$program" 2>/dev/null | grep -q libmpich && launcher=mpirun.mpich
done
command -v "$launcher" >/dev/null || { echo "1..0 # SKIP no $launcher"; exit; }
# Leaks of MPI's libraries are ignored: they keep their memory until the process ends.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
# By default Open MPI starts at most one rank for each core, and none as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# job RANKS ARGUMENT...: runs a job, and makes the folder given by --output.
job() {
  local -a words=("$@")
  local i
  for i in "${!words[@]}"; do
    if [ "${words[i]}" = --output ]; then mkdir -p "${words[i + 1]}"; fi
  done
  "$launcher" -n "$1" "$mpi" run "${@:2}" </dev/null
}

same_results() {
  local picture name
  for picture in "$digits"/images/*.png; do
    name=$(basename "$picture" .png)
    "$top_builddir/backplane" run "$digits/digits.onnx" --input "image=$picture" --device cpu --output "$work/one.npz" >/dev/null &&
      cmp "$work/one.npz" "$work/results/$name.npz" || return 1
  done
}

all_once() {
  job 3 "$digits/digits.onnx" --device cpu --output "$work/results" "$digits"/images/*.png >"$work/said" || return 1
  cat "$work/said"
  [ "$(grep -c '\.npz: .* ms, rank' "$work/said")" -eq 10 ] && sed -n 's/:.*//;1,10p' "$work/said" | sort -c &&
    grep -F "10 computed, 0 failed" "$work/said" && same_results
}

# The library holds code for one kind of device, and each rank maps the library.
from_library() {
  "$top_builddir/backplane" compile "$digits/digits.onnx" --device cpu -o "$work/digits.so" &&
    job 2 "$work/digits.so" --output "$work/mapped" --json "$digits"/images/*.png >"$work/said" &&
    cat "$work/said" && [ "$(grep -c '"state": "done"' "$work/said")" -eq 10 ] &&
    cmp "$work/mapped/7-3710.npz" "$work/results/7-3710.npz"
}

bad_item() {
  echo nonsense >"$work/bad.png"
  ends_saying 1 "bad.png: " job 2 "$digits/digits.onnx" --device cpu --output "$work/some" "$work/bad.png" "$digits/images/7-3710.png" &&
    grep -F "1 computed, 1 failed" "$work/out" && cmp "$work/some/7-3710.npz" "$work/results/7-3710.npz" &&
    [ "$(grep -o 'bad\.png: ' "$work/out" | wc -l)" -eq 1 ]
}

wrong_shape() {
  ends_saying 1 "rank " job 2 "$work/loop.onnx" --device cpu --output "$work/wrong" "$work/results/7-3710.npz"
}

# says_once STATUS TEXT COMMAND...: one rank prints the text, on one line.
says_once() {
  ends_saying "$@" && [ "$(grep -cF -- "$2" "$work/out")" -eq 1 ]
}

two_of_a_name() {
  mkdir -p "$work/other" && cp "$digits/images/7-3710.png" "$work/other" &&
    says_once 2 "give the files different names" job 2 "$digits/digits.onnx" --device cpu --output "$work/twice" \
      "$digits/images/7-3710.png" "$work/other/7-3710.png" && [ -z "$(ls "$work/twice")" ]
}

# An .npz archive with the name of the results' folder exists.
results_in_place_of_the_item() {
  mkdir -p "$work/in-place" && cp "$work/results/7-3710.npz" "$work/in-place/item.npz" &&
    says_once 2 "would replace it" job 1 "$digits/digits.onnx" --device cpu --output "$work/in-place" \
      "$work/in-place/item.npz" &&
    says_once 2 "would replace it" job 1 "$digits/digits.onnx" --device cpu --output "$work/in-place" --resume \
      "$work/in-place/item.npz" &&
    cmp "$work/results/7-3710.npz" "$work/in-place/item.npz"
}

# An .npz file with the name of a result has the model's weights, and another is no archive.
results_in_place_of_other_files() {
  local folder=$work/others reads="a.npz would replace a file that the command reads"
  mkdir "$folder" && sum_with_file a.npz >"$folder/sum.onnx" && { printf PK && head -c 134 /dev/zero; } >"$folder/a.npz" &&
    echo notes >"$folder/b.npz" && cp -r "$folder" "$work/others-before" &&
    says_once 2 "$reads" job 1 "$folder/sum.onnx" --device cpu --output "$folder" a.npy &&
    says_once 2 "b.npz would replace a file that is no .npz file" job 1 "$folder/sum.onnx" --device cpu --output "$folder" b.npy &&
    diff -r "$folder" "$work/others-before"
}

# The C compiler ends the program while it links the library.
nothing_left_of_a_signal() {
  mkdir "$work/ended" "$work/ended/tmp" "$work/ended/results" &&
    printf '#!/bin/sh\ncase "$*" in *-shared*) ls "$TMPDIR_OF_JOB" >"%s"; kill -TERM "$JOB";; esac\nexec cc "$@"\n' "$work/ended/seen" \
      >"$work/ended/cc" && chmod +x "$work/ended/cc" || return
  TMPDIR=$work/ended/tmp TMPDIR_OF_JOB=$work/ended/tmp BACKPLANE_CC=$work/ended/cc sh -c 'JOB=$$ exec "$@"' - \
    "$mpi" run "$digits/digits.onnx" --device cpu --output "$work/ended/results" "$digits"/images/7*.png && return 1
  grep '^backplane-mpi-' "$work/ended/seen" && ! ls "$work/ended/tmp" | grep '^backplane-mpi-'
}

lost_output() {
  mkdir "$work/lost" &&
    fails 1 "backplane-mpi: cannot write the output: " sh -c '"$@" >/dev/full' - \
      "$mpi" run "$digits/digits.onnx" --device cpu --output "$work/lost" "$digits"/images/7*.png &&
    (ulimit -f 0 && "$mpi" --version 2>&1 >"$work/lost/version"; echo "status $?") | cat >"$work/said" &&
    grep -F "cannot write the output: File too large" "$work/said" && grep -Fx "status 1" "$work/said"
}

# German writes numbers with a comma.
json_in_german() {
  mkdir "$work/german" && LOCPATH=$work/locale LC_ALL=de_DE.UTF-8 job 1 "$digits/digits.onnx" --device cpu --json \
    --output "$work/german" "$digits"/images/7*.png >"$work/said" || return
  cat "$work/said"
  grep -qE '"seconds": [0-9]+\.[0-9]+$' "$work/said" && ! grep -E '[0-9],[0-9]' "$work/said"
}

# Two devices, four ranks: each device has two ranks.
in_turn() {
  BACKPLANE_PLUGIN_PATH=$BACKPLANE_PLUGIN_PATH:$top_builddir/tests/mock/.libs job 4 "$digits/digits.onnx" --device simdev \
    --output "$work/devices" "$digits"/images/*.png >"$work/said" 2>&1
  cat "$work/said"
  [ "$(grep -c '^  rank .*(simdev:0)' "$work/said")" -eq 2 ] && [ "$(grep -c '^  rank .*(simdev:1)' "$work/said")" -eq 2 ]
}

# short_ones_written FOLDER: waits until the short items are written, for at most a minute.
short_ones_written() {
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    [ "$(find "$1" -name 'short-*.npz' 2>/dev/null | wc -l)" -eq 6 ] && return 0
    sleep 0.1
  done
  return 1
}

# The other MPI's launcher passes the rank's number in another variable.
launcher_of_another_mpi() {
  local variable=PMI_SIZE
  [ "$launcher" = mpirun.mpich ] && variable=OMPI_COMM_WORLD_SIZE
  mkdir -p "$work/another"
  ends_saying 1 "start the job with its mpirun" env "$variable=2" "$mpi" run "$digits/digits.onnx" --device cpu --output "$work/another" \
    "$digits"/images/7*.png && [ -z "$(ls "$work/another")" ]
}

# rank_dies FOLDER RANKS ARGUMENT...: one rank computes an endless item, the others wait; then rank 1 dies.
rank_dies() {
  local launched victim status
  job "$2" --device cpu --output "$1" "${@:3}" >"$work/said" 2>&1 &
  launched=$!
  short_ones_written "$1"
  victim=$(pgrep -f -- "--output $1" | while read -r pid; do
    tr '\0' '\n' <"/proc/$pid/environ" | grep -qE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=1$' && echo "$pid"; done | head -n 1)
  kill -KILL "$victim"
  wait "$launched"
  status=$?
  cat "$work/said"
  [ "$status" -ne 0 ] && [ "$(find "$1" -name '*.npz' | wc -l)" -eq 6 ] && ! pgrep -f -- "--output $1"
}

resumes() {
  ends_saying 0 "0 computed, 0 failed, 6 there already" job 2 "$work/loop.onnx" --device cpu --output "$work/dies" --resume "$work"/short-*.npy
}

rank_hangs() {
  ends_saying 1 "has not finished an item within 5 seconds" job 2 "$work/loop.onnx" --device cpu --output "$work/hangs" --deadline 5 \
    "$work"/short-*.npy "$work/endless.npy" && grep -qE 'rank [01] on ' "$work/out" && [ "$(find "$work/hangs" -name '*.npz' | wc -l)" -eq 6 ]
}

# The shapes of the model are open. The last stage reads the input b again, and the first stage
# computes the output sum.
# Stages compute in another order than the whole model, so the last bits may differ.
are_close() {
  "${BP_TEST_PYTHON:-false}" -c "import numpy, sys; a, b = map(numpy.load, sys.argv[1:])
assert list(a) == list(b) and all(numpy.allclose(a[k], b[k], 1e-5, 1e-6) for k in a), 'other results'" "$1" "$2"
}

pipeline_same_results() {
  local item name
  job 3 "$work/staged/model.onnx" --pipeline 3 --device cpu --output "$work/staged/results" "$work"/staged/short-*.npz >"$work/said" || return 1
  cat "$work/said"
  grep -F "6 computed, 0 failed" "$work/said" && [ "$(grep -c '^  rank .*: 6$' "$work/said")" -eq 3 ] || return 1
  for item in "$work"/staged/short-*.npz; do
    name=$(basename "$item")
    "$top_builddir/backplane" run "$work/staged/model.onnx" --input "$item" --device cpu --output "$work/one.npz" >/dev/null &&
      are_close "$work/one.npz" "$work/staged/results/$name" || return 1
  done
}

pipeline_of_pictures() {
  job 2 "$digits/digits.onnx" --pipeline 2 --device cpu --output "$work/piped" --json "$digits"/images/*.png >"$work/said" || return 1
  cat "$work/said"
  [ "$(grep -c '"state": "done"' "$work/said")" -eq 10 ] && diff -r "$work/piped" "$work/results"
}

pipeline_bad_item() {
  "${BP_TEST_PYTHON:-false}" -c "import numpy, sys; numpy.savez(sys.argv[1], steps=1, a=numpy.zeros((2, 4), 'f'), b=numpy.zeros((3, 4), 'f'))" \
    "$work/staged/uneven.npz" || return 1
  ends_saying 1 "uneven.npz: rank 0 on " job 2 "$work/staged/model.onnx" --pipeline 2 --device cpu --output "$work/uneven" \
    "$work/staged/uneven.npz" "$work/staged/short-3.npz" && grep -F "1 computed, 1 failed" "$work/out" &&
    are_close "$work/uneven/short-3.npz" "$work/staged/results/short-3.npz"
}

pipeline_hangs() {
  ends_saying 1 "a rank of the pipeline has not finished an item within 2 seconds" job 3 "$work/staged/model.onnx" --pipeline 3 --device cpu \
    --output "$work/stuck" --deadline 2 "$work"/staged/short-*.npz "$work/staged/endless.npz" &&
    [ "$(find "$work/stuck" -name '*.npz' | wc -l)" -eq 6 ]
}

slurm_lines() {
  BACKPLANE_PLUGIN_PATH=$BACKPLANE_PLUGIN_PATH:$top_builddir/tests/mock/.libs "$top_builddir/backplane" list --slurm >"$work/said"
  cat "$work/said"
  grep -qx "Name=backplane_simdev Count=2 Flags=CountOnly" "$work/said" && grep -q "^# In slurm.conf: .*backplane_simdev:2" "$work/said" &&
    ! grep cpu "$work/said" && fails 2 "leave one out" "$top_builddir/backplane" list --slurm --json
}

page_is_current() {
  "$mpi" run --help-manual >"$work/page" && diff "$top_srcdir/tools/mpi/backplane-mpi-run.1" "$work/page"
}

ok "the page of the manual says what --help says" page_is_current
ok "list --slurm counts the devices for gres.conf, without CPUs" slurm_lines
ok "results are those of one process, in the order of the items" all_once
ok "a library is mapped by the ranks" from_library
ok "an item that cannot be read is named, and the others are computed" bad_item
ok "two items of one name are refused before any work" two_of_a_name
ok "results that would replace their item are refused before any work" results_in_place_of_the_item
ok "results replace no file of the model, and no file of another kind" results_in_place_of_other_files
ok "nothing is left in the folder for temporary files of a job that a signal ends" nothing_left_of_a_signal
ok "output that cannot be written is an error" lost_output
if mkdir "$work/locale" && localedef -i de_DE -f UTF-8 "$work/locale/de_DE.UTF-8" >/dev/null 2>&1; then
  ok "JSON has points in numbers in any locale" json_in_german
else
  skip "JSON has points in numbers in any locale" "localedef made no locale"
fi
ok "a missing model is reported once" says_once 1 "/nowhere/model.onnx" job 3 /nowhere/model.onnx --device cpu --output "$work/none" a.npy
ok "a missing library is reported once" says_once 1 "/nowhere/model.so" job 3 /nowhere/model.so --device cpu --output "$work/none" a.npy
ok "a missing folder is reported once" says_once 1 "make it first" "$launcher" -n 2 "$mpi" run "$digits/digits.onnx" --device cpu --output "$work/nowhere" a.png
ok "a wrong command line is reported once" says_once 2 "--output FOLDER is missing" job 3 "$digits/digits.onnx" a.png
ok "a device that no rank has is an error" ends_saying 1 "no device fits" job 2 "$digits/digits.onnx" --device cpu:7 --output "$work/none" a.png
ok "a launcher of another MPI is an error, and nothing is written" launcher_of_another_mpi
ok "the ranks of a machine take its devices in turn" in_turn
ok "a model in stages gives the results of one process" pipeline_of_pictures
ok "more stages than operators are reported once" says_once 1 "cannot be cut into 12 stages" job 12 "$digits/digits.onnx" --pipeline 12 --device cpu \
  --output "$work/none" a.png
ok "a number of ranks that is not the number of stages is reported once" says_once 2 "the job has 2 ranks" job 2 "$digits/digits.onnx" --pipeline 3 \
  --output "$work/none" a.png
ok "a library in stages is refused" says_once 1 "a library cannot be cut" job 2 "$work/digits.so" --pipeline 2 --output "$work/none" a.png
if "${BP_TEST_PYTHON:-false}" "$top_srcdir/tests/tools/mpi_items.py" "$work"; then
  ok "an item of another model's is refused by its rank" wrong_shape
  ok "a rank that dies ends the job, and what was written stays" rank_dies "$work/dies" 2 "$work/loop.onnx" \
    "$work"/short-*.npy "$work/endless.npy"
  ok "--resume leaves out what is there" resumes
  ok "a rank that hangs is named, and what was written stays" rank_hangs
  ok "tensors go past stages that do not read them" pipeline_same_results
  ok "an item that a stage refuses is named, and the others are computed" pipeline_bad_item
  ok "a rank of a pipeline that dies ends the job, and what was written stays" rank_dies "$work/staged/dies" 3 \
    "$work/staged/model.onnx" --pipeline 3 "$work"/staged/short-*.npz "$work/staged/endless.npz"
  ok "a pipeline that hangs ends the job, and what was written stays" pipeline_hangs
else
  for name in "an item of another model's is refused by its rank" "a rank that dies ends the job" "--resume" "a rank that hangs" \
    "tensors go past stages" "an item that a stage refuses" "a rank of a pipeline that dies" "a pipeline that hangs"; do
    skip "$name" "BP_TEST_PYTHON has no onnx"
  done
fi
echo "1..$count"
