// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	sk_unix "github.com/checkpoint-restore/go-criu/v7/crit/images/sk-unix"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/timerfd"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// The connections that a unix socket accepts have its name. CRIU removes the place of every named socket before criu
// binds a socket there, but does not bind connections (bind_unix_sk in criu/sk-unix.c): the place would be gone if no
// socket listens there any more. So connections are restored without a name, and the socket's place in the file system
// stays.
const (
	filesName  = "files.img"
	filesMagic = 0x56303138 // criu/include/magic.h

	// maxFiles bounds the image: a million open files are about 100 MiB.
	maxFiles = 256 << 20

	established = 1  // TCP_ESTABLISHED of include/net/tcp_states.h
	listening   = 10 // TCP_LISTEN
)

// fileChanges are the changes of an image of open files.
type fileChanges struct {
	nameOf     func(*regfile.RegFileEntry) string // the name by which criu is to open a file; "": the name that it had
	reset      map[uint32]bool                    // unix sockets that are restored as closed, and their other ends
	moved      map[uint32]string                  // names of unix sockets whose files have other names (Program.Moved)
	semaphores map[uint32]bool                    // eventfds that criu inherits
	hasGrown   func(*regfile.RegFileEntry) bool   // the file may grow, and has become longer
}

// CRIU refuses a file that has another size than at the dump (validate_file in criu/files-reg.c), but where a program
// only appends to it. A file that the job only reads may be another job's log, and other jobs may append to a file to which
// this job appends: it is longer by the time of the restore. Without the move the program would read what has come.

// mayGrow tells, by the flags with which a file is open, whether it may be longer at the restore: where it is open to be
// read only, or to be appended to.
func mayGrow(flags int) bool {
	return flags&unix.O_PATH == 0 && (flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_APPEND != 0)
}

// mayDescriptorGrow is mayGrow for a descriptor of a file with this mode.
func mayDescriptorGrow(d procfs.Descriptor, mode uint32) bool {
	if mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	flags, err := d.OpenFlags()
	return err == nil && mayGrow(flags)
}

// mappedPaths returns the paths of the files that processes map or run: of another length, such a file is another file.
func (i *Image) mappedPaths() map[string]bool {
	return i.pathsOf(func(p *Places) []int { return append(slices.Clone(p.Mapped), p.Exe) })
}

// FixedPaths returns the paths of the files that must have the size of the dump at the restore: files that the program
// maps or runs, or has open in another way than mayGrow says.
func (i *Image) FixedPaths() map[string]bool {
	fixed := i.mappedPaths()
	maps.Copy(fixed, i.pathsOf(func(p *Places) []int {
		others := maps.Clone(p.Descriptors)
		for _, fd := range p.MayGrow {
			delete(others, fd)
		}
		return slices.Collect(maps.Values(others))
	}))
	return fixed
}

// pathsOf returns the paths of files of each process, of which list gives the numbers.
func (i *Image) pathsOf(list func(*Places) []int) map[string]bool {
	paths := map[string]bool{}
	for _, p := range i.Processes {
		if p.Places == nil {
			continue
		}
		for _, at := range list(p.Places) {
			if at >= 0 && at < len(i.Opened) {
				paths[i.Opened[at].Path] = true
			}
		}
	}
	return paths
}

// grownFiles tells which files have become longer since the dump.
type grownFiles struct {
	root   int // of the capsule
	table  *mounts.Table
	mapped map[string]bool // see mappedPaths
}

// openGrownFiles returns a grownFiles for the files of an image in the capsule with this init. Close root.
func (i *Image) openGrownFiles(init int) (*grownFiles, error) {
	table, err := mounts.Of(init)
	if err != nil {
		return nil, err
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", init), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &grownFiles{root: root, table: table, mapped: i.mappedPaths()}, nil
}

// hasGrown tells whether a file may grow, is not mapped, and has become longer since the dump.
func (g *grownFiles) hasGrown(f *regfile.RegFileEntry) bool {
	path := f.GetName()
	if f.Size == nil || !mayGrow(int(f.GetFlags())) || g.mapped[showPath(path)] || g.table.IsServedByUser(path) {
		return false
	}
	fd, err := unix.Openat2(g.root, strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && uint64(st.Size) > f.GetSize() //nolint:gosec // a size
}

// rewriteFiles returns the image of open files as criu is to see it.
func (r *restorer) rewriteFiles(in io.Reader) (*bytes.Reader, int64, error) {
	changes := fileChanges{nameOf: r.nameOf, reset: r.reset, moved: r.image.Program.Moved, semaphores: r.semaphores}
	grown, err := r.image.openGrownFiles(r.init)
	if err == nil { // else criu compares the sizes of all files
		defer unix.Close(grown.root)
		changes.hasGrown = grown.hasGrown
	}
	return changes.rewriteFiles(in)
}

// rewriteFiles returns an image of open files as it is to be restored, and the size of the image before.
func (c fileChanges) rewriteFiles(in io.Reader) (*bytes.Reader, int64, error) {
	first := binary.LittleEndian.AppendUint32(nil, commonMagic)
	first = binary.LittleEndian.AppendUint32(first, filesMagic)
	size := int64(len(first))
	var rest []byte
	var own []*fdinfo.FileEntry
	var highest uint32
	err := eachEntry(bufio.NewReader(in), filesMagic, func(b []byte) error {
		size += 4 + int64(len(b))
		var m fdinfo.FileEntry
		// A newer CRIU may have kinds of files that are unknown here; they are kept.
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		highest = max(highest, m.GetId())
		if isOwnTerminal(&m) {
			own = append(own, &m)
			return nil
		}
		b, early, err := c.rewriteEntry(b, &m)
		if size > maxFiles {
			err = fmt.Errorf("%w: of more than %d bytes", errImage, maxFiles)
		}
		to := &rest
		if early {
			to = &first
		}
		*to = appendEntry(*to, b)
		return err
	})
	for _, terminal := range own {
		highest++
		entries, err := addMissingPath(terminal, highest)
		if err != nil {
			return nil, size, err
		}
		for _, e := range entries {
			b, err := proto.Marshal(e)
			if err != nil {
				return nil, size, err
			}
			rest = appendEntry(rest, b)
		}
	}
	return bytes.NewReader(append(first, rest...)), size, err
}

// appendEntry adds an entry to an image.
func appendEntry(image, entry []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(image, uint32(len(entry))), entry...)
}

// rewriteEntry takes the name from an entry of a connection, renames a file as nameOf says, binds a socket where its
// file is, closes a connection that is reset, has criu inherit an eventfd that counts as a semaphore, arms a timer
// that CRIU would not arm, and takes the size from a file that has grown. early tells that the entry must stand before all others: a unix socket that listens. For a connection that is not accepted yet,
// CRIU looks for the socket that it goes to among the sockets read so far (try_resolve_unix_peer), and gives up if the
// connection is read first.
func (c fileChanges) rewriteEntry(b []byte, m *fdinfo.FileEntry) (_ []byte, early bool, err error) {
	s, f := m.GetUsk(), m.GetReg()
	grown := f != nil && c.hasGrown != nil && c.hasGrown(f)
	if grown {
		f.Size = nil
	}
	switch {
	case f != nil && c.nameOf(f) != "":
		f.Name = proto.String(c.nameOf(f))
	case s != nil && s.GetUflags()&externalFlag == 0 && c.reset[s.GetIno()]:
		closeConnection(s)
	case moveSocket(s, c.moved):
	case m.GetEfd() != nil && c.semaphores[m.GetId()]:
		inheritSemaphore(m)
	case losesName(s):
		s.Name = []byte{}
	case grown:
	case isOverdue(m.GetTfd()):
		m.Tfd.Vsec, m.Tfd.Vnsec = m.Tfd.Isec, m.Tfd.Insec
	default:
		return b, s.GetState() == listening, nil
	}
	b, err = proto.Marshal(m)
	return b, s.GetState() == listening, err
}

// moveSocket has criu bind a socket to its file's name, if moved (Program.Moved) has that name.
func moveSocket(s *sk_unix.UnixSkEntry, moved map[uint32]string) bool {
	name := moved[s.GetIno()]
	if s == nil || name == "" || s.GetUflags()&externalFlag != 0 {
		return false
	}
	s.Name, s.Deleted = append([]byte(name), 0), nil
	return true
}

// isOverdue tells whether a periodic timer has expired and was not read since. The kernel arms such a timer when the
// program reads it, and shows no time until then (timerfd_show); CRIU would restore it with that time, which is a timer
// that is not armed.
func isOverdue(t *timerfd.TimerfdEntry) bool {
	return t.GetTicks() > 0 && t.GetVsec() == 0 && t.GetVnsec() == 0 && (t.GetIsec() > 0 || t.GetInsec() > 0)
}

// hasPlace tells whether a socket has a place in the file system.
func hasPlace(s *sk_unix.UnixSkEntry) bool {
	return len(s.GetName()) > 0 && !bytes.HasPrefix(s.GetName(), []byte{0})
}

// losesName tells whether a socket is a connection that is restored without its name.
func losesName(s *sk_unix.UnixSkEntry) bool {
	return hasPlace(s) && s.GetState() == established && s.GetType() != unix.SOCK_DGRAM && !s.GetDeleted()
}
