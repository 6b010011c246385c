/* SPDX-License-Identifier: Apache-2.0 */
/* The work of ranks other than 0. */
#include "tools/mpi/mpi.h"

void pause_between(gboolean anything_happened, unsigned *microseconds) {
  if (anything_happened) {
    *microseconds = 10;
    return;
  }
  g_usleep(*microseconds);
  *microseconds = MIN(*microseconds * 2, 1000);
}

/* Receives a message of rank 0 or of the previous stage, if there is one. Returns FALSE after the
 * last message. */
static gboolean receive(Computer *computer, gboolean *happened) {
  int is_there;
  MPI_Status found;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &found);
  if (!is_there)
    return TRUE;
  *happened = TRUE;
  GByteArray *message = message_receive(&found);
  if (found.MPI_TAG == TAG_ITEM)
    computer_give(computer, message);
  else
    g_byte_array_unref(message);
  return found.MPI_TAG == TAG_ITEM;
}

int receiver_of(const Route *route, const GByteArray *result, int *tag) {
  gboolean goes_on = route->next >= 0 && message_header(result)->status == MESSAGE_OK;
  *tag = goes_on ? TAG_ITEM : TAG_RESULT;
  return goes_on ? route->next : 0;
}

/* The receiver may be sending at the same time, so this send must not wait for it. */
static void send(const Route *route, Computer *computer, GByteArray **sent, MPI_Request *request,
                 gboolean *happened) {
  int is_done = 1, tag;
  if (*sent)
    MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
  if (!is_done)
    return;
  g_clear_pointer(sent, g_byte_array_unref);
  *sent = computer_take(computer);
  if (!*sent)
    return;
  *happened = TRUE;
  int receiver = receiver_of(route, *sent, &tag);
  MPI_Isend((*sent)->data, (int)(*sent)->len, MPI_BYTE, receiver, tag, MPI_COMM_WORLD, request);
}

void work(const Route *route, Computer *computer) {
  GByteArray *sent = NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  unsigned pause = 10;
  for (gboolean goes_on = TRUE; goes_on;) {
    gboolean happened = FALSE;
    send(route, computer, &sent, &request, &happened);
    goes_on = receive(computer, &happened);
    pause_between(happened, &pause);
  }
  /* Rank 0 ends the work once it has all results. */
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (sent)
    g_byte_array_unref(sent);
}
