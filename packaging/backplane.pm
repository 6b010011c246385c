# SPDX-License-Identifier: Apache-2.0
# The debhelper sequence `backplane` (Build-Depends: dh-sequence-backplane).
use warnings;
use strict;
use Debian::Debhelper::Dh_Lib;

insert_before('dh_gencontrol', 'dh_backplane');

1;
