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
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Unpack fills dir, which must exist and be empty, with the content of the folder that Pack was given. Unpack needs
// root. No entry of a pack can change a file outside of dir: users have made the pack's content. After an error dir is
// half full.
func Unpack(ctx context.Context, r io.Reader, dir string) error {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", dir, err)
	}
	defer unix.Close(root)
	u := &unpacker{r: bufio.NewReaderSize(r, 1<<20), root: root, buf: make([]byte, 1<<20)}
	if err := u.unpackAll(ctx); err != nil {
		return fmt.Errorf("unpack %s: %w", dir, err)
	}
	return nil
}

type unpacker struct {
	r    *bufio.Reader
	root int
	buf  []byte
	dirs []packEntry // finished last: new files in them change their times
}

func (u *unpacker) unpackAll(ctx context.Context) error {
	magic := make([]byte, len(packMagic))
	if _, err := io.ReadFull(u.r, magic); err != nil || string(magic) != packMagic {
		return errors.Join(fmt.Errorf("no pack: it begins with %q", magic), err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := u.readHeader()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		if err := u.unpackEntry(ctx, *e); err != nil {
			return fmt.Errorf("%.200q: %w", e.Path, err)
		}
	}
	for i := len(u.dirs) - 1; i >= 0; i-- {
		if err := u.setAttributes(u.dirs[i]); err != nil {
			return fmt.Errorf("%.200q: %w", u.dirs[i].Path, err)
		}
	}
	return nil
}

func (u *unpacker) readHeader() (*packEntry, error) {
	var n uint32
	if err := binary.Read(u.r, binary.LittleEndian, &n); err != nil {
		return nil, noEOF(err)
	}
	if n == 0 {
		return nil, nil
	}
	if n > maxHeader {
		return nil, fmt.Errorf("header of %d bytes", n)
	}
	// ReadAll allocates in parts: a pack with a large length and few bytes must not cost memory.
	b, err := io.ReadAll(io.LimitReader(u.r, int64(n)))
	if err != nil {
		return nil, err
	}
	if len(b) < int(n) {
		return nil, io.ErrUnexpectedEOF
	}
	e := &packEntry{}
	if err := json.Unmarshal(b, e); err != nil {
		return nil, err
	}
	return e, e.checkEntry()
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func isInside(p string) bool {
	return p != "" && len(p) <= maxPath && p[0] != '/' && path.Clean(p) == p && p != ".." &&
		!strings.HasPrefix(p, "../") && strings.IndexByte(p, 0) < 0
}

func (e packEntry) checkEntry() error {
	if !isInside(string(e.Path)) || e.Link != "" && !isInside(string(e.Link)) {
		return fmt.Errorf("path %.200q, link %.200q: not in the folder", e.Path, e.Link)
	}
	if e.Path == "." && e.Type != Dir || e.Size < 0 || e.Type != Regular && len(e.Extents) > 0 || e.Link != "" && e.Type != "" {
		return fmt.Errorf("%.200q: bad entry", e.Path)
	}
	end := int64(0)
	for _, x := range e.Extents {
		if x[0] < end || x[1] < 0 || x[0] > e.Size-x[1] {
			return fmt.Errorf("%.200q: bad extent at %d", e.Path, x[0])
		}
		end = x[0] + x[1]
	}
	return nil
}

// openParent opens the folder that a path is in. No link on the way is followed, and the
// way cannot lead out.
func (u *unpacker) openParent(p string) (dir int, base string, err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	dir, err = unix.Openat2(u.root, path.Dir(p), how)
	return dir, path.Base(p), err
}

func (u *unpacker) unpackEntry(ctx context.Context, e packEntry) error {
	if e.Path == "." {
		u.dirs = append(u.dirs, e)
		return nil
	}
	dir, base, err := u.openParent(string(e.Path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	switch {
	case e.Link != "":
		from, first, err := u.openParent(string(e.Link))
		if err != nil {
			return err
		}
		defer unix.Close(from)
		return unix.Linkat(from, first, dir, base, 0) // a link is linked, not followed
	case e.Type == Dir:
		u.dirs = append(u.dirs, e)
		return unix.Mkdirat(dir, base, 0o700)
	case e.Type == Symlink:
		if err := unix.Symlinkat(string(e.Target), dir, base); err != nil {
			return err
		}
		if err := unix.Fchownat(dir, base, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		return setTime(dir, base, e)
	case e.Type == Fifo, e.Type == Other && e.Socket:
		kind := uint32(unix.S_IFIFO)
		if e.Socket {
			kind = unix.S_IFSOCK
		}
		if err := unix.Mknodat(dir, base, kind|0o600, 0); err != nil {
			return err
		}
	case e.Type == Regular:
		if err := u.unpackFile(ctx, dir, base, e); err != nil {
			return err
		}
	default:
		return fmt.Errorf("type %.20q", e.Type)
	}
	return u.setAttributes(e)
}

func (u *unpacker) unpackFile(ctx context.Context, dir int, base string, e packEntry) error {
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, e.Size); err != nil {
		return err
	}
	for _, x := range e.Extents {
		for at, rest := x[0], x[1]; rest > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := u.buf[:min(rest, int64(len(u.buf)))]
			if _, err := io.ReadFull(u.r, b); err != nil {
				return noEOF(err)
			}
			if err := writeFull(fd, b, at); err != nil {
				return err
			}
			at, rest = at+int64(len(b)), rest-int64(len(b))
		}
	}
	return nil
}

// setAttributes sets owner, mode, attributes and time of a new file, or of the folder itself.
func (u *unpacker) setAttributes(e packEntry) error {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(u.root, string(e.Path), how)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := unix.Fchownat(fd, "", int(e.UID), int(e.GID), unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	mode := e.Mode & 0o7777
	if e.UID == 0 {
		mode &^= unix.S_ISUID | unix.S_ISGID // a job needs no programs that make their callers root
	}
	if err := unix.Chmod(self, mode); err != nil {
		return err
	}
	for name, value := range e.Xattrs {
		if !wantedXattr(name) {
			return fmt.Errorf("attribute %.80q", name)
		}
		if err := unix.Setxattr(self, string(name), value, 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("attribute %.80q: %w", name, err)
		}
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(e.Mtime)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, self, times, 0)
}

func setTime(dir int, base string, e packEntry) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(e.Mtime)}
	return unix.UtimesNanoAt(dir, base, times, unix.AT_SYMLINK_NOFOLLOW)
}
