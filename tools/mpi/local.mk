# SPDX-License-Identifier: Apache-2.0
# The program that deals a model's inputs to the ranks of an MPI job. backplane-mpi is the only file
# that is linked with MPI.

bin_PROGRAMS += backplane-mpi
backplane_mpi_SOURCES = \
	tools/mpi/compute.c \
	tools/mpi/deal.c \
	tools/mpi/main.c \
	tools/mpi/message.c \
	tools/mpi/model.c \
	tools/mpi/mpi.h \
	tools/mpi/rank.c \
	tools/mpi/stages.c \
	tools/mpi/work.c
backplane_mpi_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
backplane_mpi_LDADD = $(command_libs) $(MPI_LIBS)

dist_man_MANS += tools/mpi/backplane-mpi-run.1 tools/mpi/backplane-mpi.1
other_manuals += manual-mpi
manual-mpi: backplane-mpi
	$(AM_V_GEN)./backplane-mpi run --help-manual >$(srcdir)/tools/mpi/backplane-mpi-run.1
