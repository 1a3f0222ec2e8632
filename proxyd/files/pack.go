// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// A pack is a folder as a stream: a magic word, then entries, folders before their content, then an empty entry.
//
//	length of the header, 4 bytes, little endian
//	header, a packed as JSON
//	the data, as many bytes as the header's Extents are long together
const (
	packMagic = "SINGPK1\n"
	maxHeader = 16 << 20
)

// packEntry is an entry of a pack.
type packEntry struct {
	Path    Name       // relative to the folder, clean; "." is the folder itself
	Type    Type       `json:",omitempty"`
	Mode    uint32     `json:",omitempty"`
	UID     uint32     `json:",omitempty"`
	GID     uint32     `json:",omitempty"`
	Mtime   int64      `json:",omitempty"`
	Size    int64      `json:",omitempty"`
	Socket  bool       `json:",omitempty"` // Type Other: a socket's place
	Target  Name       `json:",omitempty"`
	Link    Name       `json:",omitempty"` // an earlier entry's path: the same file
	Xattrs  Attributes `json:",omitempty"`
	Extents [][2]int64 `json:",omitempty"` // offset and length of the parts that are no holes
}

// Pack writes a folder, with all that is in the folder, to w: types, modes, owners, times,
// extended attributes, hard links, holes. Pack needs root, and no process may be changing the
// folder.
//
// Of sockets the names are packed; CRIU removes the name before it binds a restored socket there, and the names of
// sockets without a listener stay. Devices are left out. CRIU may dump meanwhile: removed files that are still open go
// into an image, and CRIU makes no file in the folder as long as it is run without --link-remap.
func Pack(ctx context.Context, dir string, w io.Writer) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("pack %s: %w", dir, err)
	}
	defer unix.Close(fd)
	p := &packer{ctx: ctx, w: bufio.NewWriterSize(w, 1<<20), links: map[[2]uint64]Name{}, buf: make([]byte, 1<<20)}
	if err := p.packAll(fd); err != nil {
		return fmt.Errorf("pack %s: %w", dir, err)
	}
	return nil
}

type packer struct {
	ctx   context.Context
	w     *bufio.Writer
	links map[[2]uint64]Name
	buf   []byte
}

func (p *packer) packAll(fd int) error {
	if _, err := p.w.WriteString(packMagic); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	e, err := readEntry(".", st, fd)
	if err != nil {
		return err
	}
	if err := p.writeHeader(e, nil); err != nil {
		return err
	}
	if err := p.packFolder(fd, ""); err != nil {
		return err
	}
	if err := binary.Write(p.w, binary.LittleEndian, uint32(0)); err != nil {
		return err
	}
	return p.w.Flush()
}

// packFolder packs the content of the open folder fd.
func (p *packer) packFolder(fd int, prefix string) error {
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(again), prefix)
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	sort.Strings(names) // the same folder gives the same pack
	for _, name := range names {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.packChild(fd, prefix, name); err != nil {
			return nameChild(prefix+name, err)
		}
	}
	return nil
}

// childError is the reason why a file below the packed folder could not be packed. The folders above it do not wrap the
// error again.
type childError struct {
	path string
	why  error
}

// Error implements error. It cuts a long path, which can have maxPath bytes.
func (e *childError) Error() string {
	if len(e.path) > 300 {
		return fmt.Sprintf("%s…: %v", e.path[:300], e.why)
	}
	return fmt.Sprintf("%s: %v", e.path, e.why)
}

// Unwrap returns the reason, for errors.Is.
func (e *childError) Unwrap() error { return e.why }

// nameChild adds a path to an error, unless the error names one already.
func nameChild(path string, err error) error {
	if known := (*childError)(nil); errors.As(err, &known) {
		return err
	}
	return &childError{path, err}
}

// errMounted is the error of Pack for a mount point. A process of a user may serve the file system there, and not
// answer.
var errMounted = errors.New("a file system is mounted there: unmount it before a checkpoint")

// errPathTooLong is the error of Pack for a path that Unpack would refuse. The limit also bounds the depth of folders,
// and so the descriptors and memory of Pack.
var errPathTooLong = fmt.Errorf("its path from the packed folder is longer than %d bytes: remove it, or rename folders, before a checkpoint", maxPath)

// packChild packs a single entry of a folder: by descriptors and never through links, because the
// folder's content is a user's.
func (p *packer) packChild(dir int, prefix, name string) error {
	path := prefix + name
	if len(path) > maxPath {
		return errPathTooLong
	}
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV})
	if errors.Is(err, unix.EXDEV) {
		return errMounted
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	e, err := readEntry(path, st, fd)
	if err != nil {
		return err
	}
	id := [2]uint64{st.Dev, st.Ino}
	if e.Type != Dir && st.Nlink > 1 {
		if first, ok := p.links[id]; ok {
			return p.writeHeader(packEntry{Path: Name(path), Link: first}, nil)
		}
		p.links[id] = Name(path)
	}
	switch e.Type {
	case Dir:
		if err := p.writeHeader(e, nil); err != nil {
			return err
		}
		return p.packFolder(fd, path+"/")
	case Symlink:
		n, err := unix.Readlinkat(fd, "", p.buf)
		if err != nil {
			return err
		}
		e.Target = Name(p.buf[:n])
	case Regular:
		return p.packFile(fd, e)
	case Other:
		if !e.Socket {
			return nil // a device
		}
	case Fifo, Missing:
	}
	return p.writeHeader(e, nil)
}

// packFile packs a regular file that fd names.
func (p *packer) packFile(fd int, e packEntry) error {
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return err
	}
	defer file.Close()
	for at := int64(0); at < e.Size; {
		data, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		hole := e.Size
		if err == nil {
			hole, err = unix.Seek(int(file.Fd()), data, unix.SEEK_HOLE)
		} else {
			data, err = at, nil // a file system that does not report holes
		}
		if err != nil {
			return err
		}
		e.Extents = append(e.Extents, [2]int64{data, min(hole, e.Size) - data})
		at = hole
	}
	return p.writeHeader(e, file)
}

func (p *packer) writeHeader(e packEntry, file *os.File) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if len(b) > maxHeader { // Unpack would refuse it
		return fmt.Errorf("the file has %d pieces with holes in between, too many for a checkpoint: copy it to another", len(e.Extents))
	}
	if err := binary.Write(p.w, binary.LittleEndian, uint32(len(b))); err != nil {
		return err
	}
	if _, err := p.w.Write(b); err != nil {
		return err
	}
	for _, x := range e.Extents {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyBuffer(onlyWriter{p.w}, io.NewSectionReader(file, x[0], x[1]), p.buf)
		if err == nil && n < x[1] {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onlyWriter hides ReadFrom of a writer, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// readEntry describes the file of the O_PATH descriptor fd.
func readEntry(path string, st unix.Stat_t, fd int) (packEntry, error) {
	e := packEntry{Path: Name(path), Type: typeOf(st), Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Mtime: st.Mtim.Nano()}
	e.Socket = st.Mode&unix.S_IFMT == unix.S_IFSOCK
	if e.Type == Regular {
		e.Size = st.Size
	}
	if e.Type != Regular && e.Type != Dir {
		return e, nil
	}
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	names, err := xattrNames(self, unix.Listxattr)
	if err == nil {
		e.Xattrs, err = readXattrs(self, names, unix.Getxattr)
	}
	return e, err
}
