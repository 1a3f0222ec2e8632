// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Call is how srun was called in the capsule.
type Call struct {
	Dir   string   // absolute and clean, or "" if the caller's folder is gone
	Umask int      // 0 to 0777
	Args  []string // srun's own name first
	Env   []string // name=value
}

// MaxCall bounds the bytes that describe a call.
const MaxCall = 8 << 20

// ErrCall is wrapped by all errors of ParseCall and ReadCall that are the caller's fault.
var ErrCall = errors.New("not a call of srun")

// needed is what keeps the caller from changing the bytes while they are read.
const needed = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// ReadCall reads the memfd that sing-srun has sent. Whatever f is, it does not block:
// only a file that has seals and is sealed is read. f stays the caller's.
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
		return nil, fmt.Errorf("%w: not a sealed memfd", ErrCall)
	}
	return ParseCall(io.NewSectionReader(f, 0, MaxCall+1))
}

// ParseCall reads what slurm-spank/srun/call.c writes: strings, each with its NUL:
// folder, umask, number of arguments, the arguments, the environment. Entries of the
// environment that are not name=value are dropped, as a shell does.
func ParseCall(r io.Reader) (*Call, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxCall+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxCall {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrCall, MaxCall)
	}
	rest, ended := bytes.CutSuffix(b, []byte{0})
	if !ended {
		return nil, fmt.Errorf("%w: cut off", ErrCall)
	}
	words := strings.Split(string(rest), "\x00")
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
	for _, kv := range words[3+n:] {
		if strings.Index(kv, "=") > 0 {
			c.Env = append(c.Env, kv)
		}
	}
	return c, nil
}
