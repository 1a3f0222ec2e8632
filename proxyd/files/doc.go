// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package files puts the files of a job back to their state at a cut: it keeps the list of the files that the job
// touches, records their state, and restores that state.
//
// # The order of events
//
// Of a single capsule, on any node; the log is on a shared folder.
//
//	start        CreateChangeList, OpenChangeList, ChangeList.Run, Watch; programs run with the shim
//	checkpoint   programs are frozen
//	             ChangeList.Drain                the kernel's reports
//	             Scan, ChangeList.Add            files that are open now
//	             ChangeList.Cut, Since           changes since the last State's Mark
//	             Record                       → State, and a stream of contents
//	             Pack                         /tmp, /var/tmp and /dev/shm, whole
//	running      ChangeList.Forget               changes before the oldest Mark that a kept State has, if the log is long
//	restore      CreateChangeList, OpenChangeList   a new list for the new capsule, the old log
//	             Unpack
//	             Since(State.Mark), PutBack   in the new capsule, before CRIU restores
//	             ChangeList.Rewind
//
// # The list
//
// All processes of a capsule append to one list, a mapping (libsingshim/shim/list.h, record.go). The mapping has its
// full length from the beginning: CRIU maps it again in a restored process, and wants the same length. Records that do
// not fit go to a second file. A ChangeList brings both into the log periodically, and before the log is read. The user
// can write anything into the list; it is read as hostile input and can only say to which paths the user, with the
// user's own rights, did something.
//
// Between the head and the records the list has a table of inodes (inodes.go), by which the shims show
// programs the inodes that files of restored unix sockets had. The caller fills the table after a program's
// restore.
//
// A process records a path once between two cuts. When a name goes away, the process forgets that
// it has recorded the path, and tells the other processes; so the last record of each path is
// right. record_change.c explains how.
//
// # Rights
//
// No entry of the list or of a State is acted on with root's rights. Record and PutBack start a helper, this program
// with Arg, that enters the capsule's mount namespace and becomes the user. The user cannot trace the helper. Its
// answers are bounded and checked as those of a user.
//
// # Files of other users
//
// PutBack changes the files that are in the State, and removes files that the job is known to have made after the cut.
// A file is taken for another user's, left alone and noted, when
//
//   - it belongs to another user, or
//   - another inode is at its path, on the same file system, and the change list does not
//     say that the job did something to the path or to a folder above.
//
// What others have appended to a file stays if the job has not run since the cut (Job.Left), and no program had the file
// mapped then, or open in another way than to be read only or appended to (Job.Fixed).
//
// On another file system (the job has moved, and the folder is not shared) inodes prove nothing; the files that the
// user owns are then put back.
//
// A file is changed in place: truncated, and overwritten where its segments differ. The file is
// not written anew and renamed: other names of the file, and processes that are about to be
// restored with the file open, have to see the same file.
//
// Names go first (undo.go): the renames, exchanges and new files of the job after the cut are undone, latest first, so
// that folders without recorded content are where they were. Then the files of the State are compared. So a file that
// was only moved is not written again.
// PutBack may be called again with the same changes, after an error or a crash: what the
// PutBack before has put back is not moved away (findPutBack).
//
// The folders that lead to a file of the State (State.Parents, parents.go) are made again as they were
// if they are gone, and left alone if they are there: no entry says that the job made them.
//
// # Locks
//
// ChangeList.mu, alone. All else belongs to a single goroutine.
//
// # Limits
//
//   - The old content of a file that the job changed for the first time after the cut is not known,
//     unless the job only appended. The file is left alone and noted.
//   - Owners are not put back, nor are modes, times and extended attributes of files that the job
//     only did chmod, chown, utimes, setfacl or setfattr to.
//   - A working directory that another process renames keeps its old name in the records of
//     processes that stay in that directory; so does a directory that a thread has for itself.
//   - A program that bypasses the shim is seen to write, not to remove, rename or make
//     folders (Watch), and set-id programs as little. A file that such a program wrote and
//     renamed within a folder is found again. A file that it renamed after the cut without writing
//     is there under both names, and an empty folder that it made stays. Anything by io_uring is
//     unseen, except files that are open at the cut.
//   - A file that the kernel has to open for a report, and that root may not open (NFS with
//     root_squash), is lost; the change list says so.
//   - A program built with the address sanitizer does not start with anything in
//     LD_PRELOAD before its run-time library, unless ASAN_OPTIONS has
//     verify_asan_link_order=0.
package files
