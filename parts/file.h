/* SPDX-License-Identifier: Apache-2.0 */
/* Files that replace others as a whole, and temporary names. Unless stated, a function
 * returns 0 or a descriptor, or -1 with errno. Any thread. */
#ifndef BACKPLANE_PARTS_FILE_H
#define BACKPLANE_PARTS_FILE_H

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Names of unfinished files and folders. */
#define BP_TEMPORARY_PREFIX ".backplane-"
#define BP_TEMPORARY_SIZE   (sizeof BP_TEMPORARY_PREFIX + 16)

/* Makes a temporary name, of BP_TEMPORARY_SIZE bytes. */
int bp__temporary_name(char *name);
/* Creates an empty file with a temporary name, stored in `name` of BP_TEMPORARY_SIZE bytes, in the
 * folder open as `folder`. The file's mode is `mode` without the bits of the process' umask.
 * Returns the file's descriptor. */
int bp__temporary_file(int folder, mode_t mode, char *name);
/* Creates a folder with a temporary name, which only this user can open. Returns the folder's
 * descriptor. */
int bp__temporary_folder(int folder, char *name);
/* Whether a name is temporary. */
int bp__is_temporary(const char *name);

/* Creates or replaces the file `name`, private to this user, atomically: the file contains all
 * parts, or is unchanged. */
int bp__replace_file(int folder, const char *name, const struct iovec *parts, int count);

/* Opens the list of the names in the folder open as `folder`, which may be open by O_PATH (transfer
 * full, closedir). NULL with errno. */
DIR *bp__open_entries(int folder);
/* Removes the files in the folder open as `folder`, and closes it. Needs no further descriptor,
 * which a process at its limit does not have. */
void bp__remove_files(int folder);
/* Names changed within this time, in seconds, may be in use. */
#define BP_RECENT_S 60
/* Whether a name changed within BP_RECENT_S seconds of now. A time that is further in the future is
 * from before the clock was set back. */
int bp__is_recent(time_t changed, time_t now);
/* Removes the folder `name`, and its files, if it is the abandoned folder of a process of this user
 * that ended. A process locks its folder (flock) while it lives. */
void bp__remove_abandoned(int folder, const char *name);

#endif
