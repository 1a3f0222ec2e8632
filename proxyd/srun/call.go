// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Call is a call of srun in the capsule.
type Call struct {
	Dir   string   // absolute and clean, or "" if the caller's folder is gone
	Umask int      // 0 to 0777
	Args  []string // srun's own name first
	Env   []string // name=value
}

// The bounds of a call are those of execve, by which sing-srun has got its arguments and
// environment: a string has MAX_ARG_STRLEN bytes at most, and all strings, with a pointer to
// each, three quarters of 8 MiB (fs/exec.c, bprm_stack_limits).
const (
	maxString  = 128 << 10 // with its NUL
	maxStrings = 6 << 20
	pointer    = 8
	maxFront   = 3 * 4096 // folder, umask and number of arguments
	// MaxCall bounds the bytes that describe a call.
	MaxCall = maxStrings + maxFront
)

// ErrCall is wrapped by all errors of ParseCall and ReadCall that are the caller's fault.
var ErrCall = errors.New("not a call of srun")

// needed are the seals that keep the caller from changing the bytes while they are read.
const needed = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// ReadCall reads the memfd that sing-srun has sent. ReadCall does not block on any file, since it reads only a file
// that has these seals. The caller keeps f.
func ReadCall(f *os.File) (*Call, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var seals int
	var sealErr error
	if err := raw.Control(func(fd uintptr) { seals, sealErr = unix.FcntlInt(fd, unix.F_GET_SEALS, 0) }); err != nil {
		return nil, err
	}
	if sealErr != nil || seals&needed != needed {
		return nil, fmt.Errorf("%w: %w", ErrCall, errNotSealed)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > MaxCall {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrCall, MaxCall)
	}
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return ParseCall(b)
}

// checkCall returns an error unless a descriptor has a call that ReadCall would read. No memory is allocated for the
// call.
func checkCall(fd int) error {
	if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || seals&needed != needed {
		return errNotSealed
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Size > MaxCall {
		return fmt.Errorf("longer than %d bytes", MaxCall)
	}
	return nil
}

var errNotSealed = errors.New("not a sealed memfd")

// ParseCall reads the strings that slurm-spank/srun/call.c writes, each with its NUL: the folder, umask,
// number of arguments, the arguments, the environment. Entries of the environment that are not
// name=value are dropped, as a shell drops them. A call that exceeds the bounds is refused before the
// strings are split.
func ParseCall(b []byte) (*Call, error) {
	if len(b) > MaxCall {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrCall, MaxCall)
	}
	if !bytes.HasSuffix(b, []byte{0}) {
		return nil, fmt.Errorf("%w: cut off", ErrCall)
	}
	if n := bytes.Count(b, []byte{0}); len(b)+n*pointer > MaxCall {
		return nil, fmt.Errorf("%w: %d strings of %d bytes in all are more than execve takes", ErrCall, n, len(b))
	}
	for rest := b; len(rest) > 0; {
		n := bytes.IndexByte(rest, 0) + 1
		if n > maxString {
			return nil, fmt.Errorf("%w: a string of %d bytes is more than execve takes", ErrCall, n)
		}
		rest = rest[n:]
	}
	words := strings.Split(string(b[:len(b)-1]), "\x00")
	if len(words) < 4 {
		return nil, fmt.Errorf("%w: %d strings", ErrCall, len(words))
	}
	dir := words[0]
	if dir != "" && (!filepath.IsAbs(dir) || filepath.Clean(dir) != dir) {
		return nil, fmt.Errorf("%w: folder %.100q", ErrCall, dir)
	}
	mask, err := strconv.ParseUint(words[1], 8, 32)
	if err != nil || mask > 0o777 {
		return nil, fmt.Errorf("%w: umask %.20q", ErrCall, words[1])
	}
	n, err := strconv.Atoi(words[2])
	if err != nil || n < 1 || n > len(words)-3 {
		return nil, fmt.Errorf("%w: %.20q arguments", ErrCall, words[2])
	}
	c := &Call{Dir: dir, Umask: int(mask), Args: words[3 : 3+n : 3+n]}
	c.Env = slices.DeleteFunc(words[3+n:], func(kv string) bool { return strings.Index(kv, "=") <= 0 })
	if len(c.Env) == 0 {
		c.Env = nil
	}
	return c, nil
}
