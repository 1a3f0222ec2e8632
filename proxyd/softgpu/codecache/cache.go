// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package codecache keeps the machine code of kernels in a folder, for later processes of the same user.
//
//	FOLDER/              belongs to the user, mode 0700
//	  HASH.code          the name: SHA-256 of the compiler's version and the key
//	    magic            8 bytes, "SNGLCOD1"
//	    checksum         SHA-256 of all that follows
//	    data
//	  RANDOM.new         a file that is being written
//
// The data is executed, so a process that can write into the folder can do all that the user's processes can. A
// folder is refused that belongs to another user or that other users may enter, and a file is ignored that is a link,
// belongs to another user, or may be written by other users. The folder is opened for each request, without following a
// link, and looked at; its files are opened below that descriptor, so a folder above that is replaced meanwhile has no
// influence. Between requests no file is open: a process that is captured by CRIU needs nothing of the folder.
//
// A file that is damaged or cut short is removed and counts as missing. A file gets its name when it is complete.
// When the files have more bytes than the limit, those that were not used for longest are removed. Errors while files
// are written, such as a full disk, are not reported: the code is then compiled again by the next process.
package codecache

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultLimit is a limit with room for the kernels of some programs of PyTorch.
const DefaultLimit = 256 << 20

// leastData is the length from which on data is kept: less is compiled as fast as it is read.
const leastData = 8 << 10

const (
	magic     = "SNGLCOD1"
	sizeHead  = len(magic) + sha256.Size
	suffix    = ".code"
	newSuffix = ".new"
)

// Cache is a folder with machine code. Its methods may be called concurrently.
type Cache struct {
	path    string
	version string
	limit   int64

	mu   sync.Mutex
	used int64 // bytes of all files, as far as this process knows
}

// Open returns the cache in the folder at an absolute path, and makes the folder if it is missing. version is that of the
// program that makes the data: programs of other versions see other files. limit bounds the bytes of all files.
func Open(path, version string, limit int64) (*Cache, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s: it is no absolute path", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	d, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c := &Cache{path: path, version: version, limit: limit}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeOldest(d)
	return c, nil
}

// folder is an open folder.
type folder struct{ *os.File }

// openFolder opens a folder that belongs to the user, and that no other user may enter.
func openFolder(path string) (folder, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return folder{}, fmt.Errorf("%s: it must be a folder, and no link: %w", path, err)
	}
	d := folder{os.NewFile(uintptr(fd), path)}
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
		d.Close()
		return folder{}, fmt.Errorf("%s: %w", path, err)
	case int(st.Uid) != os.Geteuid():
		d.Close()
		return folder{}, fmt.Errorf("%s: it belongs to user %d, and not to user %d", path, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		d.Close()
		return folder{}, fmt.Errorf("%s: others than its owner may enter it: its mode is %#o, and not 0700", path, st.Mode&0o777)
	}
	return d, nil
}

// openFile opens a file of the folder. A link is not followed, and a file that is no plain file does not block.
func (d folder) openFile(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// removeFile removes a file. An error leaves the file there, which does no harm.
func (d folder) removeFile(name string) { _ = unix.Unlinkat(int(d.Fd()), name, 0) }

// nameOf is the name of the file of a key.
func (c *Cache) nameOf(key [sha256.Size]byte) string {
	sum := sha256.Sum256(append([]byte(c.version+"\x00"), key[:]...))
	return hex.EncodeToString(sum[:]) + suffix
}

// Load returns the data that was saved under a key, or nil.
func (c *Cache) Load(key [sha256.Size]byte) []byte {
	d, err := openFolder(c.path)
	if err != nil {
		return nil
	}
	defer d.Close()
	name := c.nameOf(key)
	f, err := d.openFile(name, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || !isOwnFile(&st) || st.Size > c.limit {
		return nil
	}
	data := make([]byte, st.Size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil
	}
	if data = checkData(data); data == nil {
		d.removeFile(name) // this process compiles the code, and saves the code again
		return nil
	}
	now := unix.NsecToTimeval(time.Now().UnixNano())
	_ = unix.Futimes(int(f.Fd()), []unix.Timeval{now, now}) // files are removed in the order of their last use
	return data
}

// isOwnFile tells whether a file is a plain file that its owner, this user, alone may write.
func isOwnFile(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0
}

// checkData returns the data of a file, or nil if the file is damaged.
func checkData(file []byte) []byte {
	if len(file) < sizeHead || string(file[:len(magic)]) != magic {
		return nil
	}
	sum := sha256.Sum256(file[sizeHead:])
	if !bytes.Equal(sum[:], file[len(magic):sizeHead]) {
		return nil
	}
	return file[sizeHead:]
}

// Save keeps data under a key.
func (c *Cache) Save(key [sha256.Size]byte, data []byte) {
	size := int64(sizeHead + len(data))
	if len(data) < leastData || size > c.limit/4 {
		return
	}
	d, err := openFolder(c.path)
	if err != nil {
		return
	}
	defer d.Close()
	temporary := rand.Text() + newSuffix
	f, err := d.openFile(temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return
	}
	sum := sha256.Sum256(data)
	_, err = f.Write(slices.Concat([]byte(magic), sum[:], data))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = unix.Renameat(int(d.Fd()), temporary, int(d.Fd()), c.nameOf(key))
	}
	if err != nil {
		d.removeFile(temporary)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used += size; c.used > c.limit {
		c.removeOldest(d)
	}
}

// entry is a file of the folder.
type entry struct {
	name string
	size int64
	used int64 // when, in nanoseconds
}

// removeOldest counts the bytes of all files. If they are more than the limit, removeOldest removes the files that were
// not used for longest, until a quarter of the limit is free. Files with other names than the cache's are left alone.
func (c *Cache) removeOldest(d folder) {
	var files []entry
	c.used = 0
	for _, name := range d.listNames() {
		var st unix.Stat_t
		if unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && isOwnFile(&st) {
			files = append(files, entry{name, st.Size, st.Mtim.Nano()})
			c.used += st.Size
		}
	}
	if c.used <= c.limit {
		return
	}
	slices.SortFunc(files, func(a, b entry) int { return int(min(max(a.used-b.used, -1), 1)) })
	for _, f := range files {
		if c.used <= c.limit/4*3 {
			break
		}
		d.removeFile(f.name)
		c.used -= f.size
	}
}

// listNames lists the names that have the form of the cache's files.
func (d folder) listNames() []string {
	dir, err := d.openFile(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // the names that were read before an error are enough
	return slices.DeleteFunc(names, func(name string) bool {
		sum, ok := strings.CutSuffix(name, suffix)
		if ok {
			_, err := hex.DecodeString(sum)
			return err != nil || len(sum) != 2*sha256.Size
		}
		text, ok := strings.CutSuffix(name, newSuffix)
		return !ok || len(text) != len(rand.Text())
	})
}
