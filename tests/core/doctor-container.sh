#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The traces that a container leaves in its file system are recognised, and no plain machine is taken for
# a container. The test runs in a separate root folder with this machine's folders and each trace in turn.
# Needs the right to mount. Prints TAP.
set -u
backplane=$top_builddir/backplane
if [ "${1-}" != --mounted ]; then
  if ! unshare -m true 2>/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "1..0 # SKIP this user may not mount"
    exit 0
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  BP_TEST_WORK=$work unshare -m bash "$0" --mounted
  exit
fi

work=$BP_TEST_WORK root=$BP_TEST_WORK/root
count=0
mkdir "$root" "$work/plugins"
mount -t tmpfs none "$root" || exit 1
for folder in /*; do
  if [ -L "$folder" ]; then
    cp -P "$folder" "$root"
  elif [ -d "$folder" ] && [ "$folder" != /run ]; then
    mkdir "$root$folder" && mount --rbind "$folder" "$root$folder" || exit 1
  fi
done
mkdir -p "$root/run/systemd"
echo "0::/init.scope" >"$work/machine"
echo "1:cpu:/docker/0123456789ab" >"$work/docker"
sed 's/defect=none        /defect=devices-none/' "$top_builddir/tests/mock/.libs/defect.so" \
  >"$work/plugins/plugin.so"
export BACKPLANE_PLUGIN_PATH=$work/plugins BACKPLANE_CACHE_DIR=$work/cache XDG_DATA_HOME=/proc/nonexistent
unset container KUBERNETES_SERVICE_HOST

# says WHETHER NAME: whether doctor reports a container.
says() {
  local found=no
  chroot "$root" "$backplane" doctor >"$work/out" 2>&1
  if grep -q container-without-devices "$work/out"; then found=yes; fi
  count=$((count + 1))
  if [ "$found" = "$1" ] && grep -q devices-none "$work/out"; then
    echo "ok $count - $2"
  else
    echo "not ok $count - $2"
    sed 's/^/# /' "$work/out"
  fi
}

mount --bind "$work/machine" "$root/proc/1/cgroup" || exit 1
says no "a machine is no container"
for mark in .dockerenv run/.containerenv run/systemd/container .singularity.d; do
  touch "$root/$mark"
  says yes "/$mark is a container's PLG-23"
  rm "$root/$mark"
done
for variable in container KUBERNETES_SERVICE_HOST; do
  export $variable=some
  says yes "the variable $variable is a container's"
  unset $variable
done
umount "$root/proc/1/cgroup"
mount --bind "$work/docker" "$root/proc/1/cgroup"
says yes "a control group may be a container's"
echo "1..$count"
