// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/mm"
	pipedata "github.com/checkpoint-restore/go-criu/v7/crit/images/pipe-data"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/pstree"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Images that this package reads. Each begins with two magic numbers, and then has entries: a length and a message, in
// the case of pipes-data followed by the pipe's content.
const (
	pstreeName = "pstree.img"
	pipesName  = "pipes-data.img"

	commonMagic = 0x54564319 // criu/include/magic.h
	pstreeMagic = 0x50273030
	pipesMagic  = 0x56453709

	maxEntry = 1 << 20
)

var errImage = errors.New("damaged image")

// eachEntry calls f for each entry of an image; f may read on from r.
func eachEntry(r io.Reader, magic uint32, f func(entry []byte) error) error {
	var head [2]uint32
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil || head != [2]uint32{commonMagic, magic} {
		return fmt.Errorf("%w: it begins with %#x", errImage, head)
	}
	for {
		var n uint32
		if err := binary.Read(r, binary.LittleEndian, &n); err == io.EOF { //nolint:errorlint // bare by contract
			return nil
		} else if err != nil || n > maxEntry {
			return fmt.Errorf("%w: an entry of %d bytes: %w", errImage, n, err)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		if err := f(b); err != nil {
			return err
		}
	}
}

// maxRewritten bounds an image that is changed in memory: a million descriptors are about 20 MiB.
const maxRewritten = 64 << 20

// rewriteEntries returns an image in which change has replaced each entry, and the size of the image before.
func rewriteEntries(in io.Reader, magic uint32, change func(entry []byte) ([]byte, error)) (*bytes.Reader, int64, error) {
	out := binary.LittleEndian.AppendUint32(nil, commonMagic)
	out = binary.LittleEndian.AppendUint32(out, magic)
	size := int64(len(out))
	err := eachEntry(bufio.NewReader(in), magic, func(b []byte) error {
		if size += 4 + int64(len(b)); size > maxRewritten {
			return fmt.Errorf("%w: of more than %d bytes", errImage, maxRewritten)
		}
		b, err := change(b)
		if err == nil {
			out = appendEntry(out, b)
		}
		return err
	})
	return bytes.NewReader(out), size, err
}

// readTree reads a pstree image.
func readTree(r io.Reader) ([]Process, error) {
	var all []Process
	err := eachEntry(r, pstreeMagic, func(b []byte) error {
		var m pstree.PstreeEntry
		if err := proto.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		p := Process{PID: int(m.GetPid()), Parent: int(m.GetPpid()), Session: int(m.GetSid())}
		for _, t := range m.GetThreads() {
			if int(t) != p.PID {
				p.Threads = append(p.Threads, int(t))
			}
		}
		all = append(all, p)
		return nil
	})
	return all, err
}

// readPipeContents returns the bytes that were in a pipe of the program at the dump. pipe is a name as in
// Program.Stdio.
func readPipeContents(src Source, pipe string) ([]byte, error) {
	number, ok := strings.CutPrefix(pipe, "pipe:[")
	if !ok {
		return nil, nil
	}
	id, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no pipe's name", pipe)
	}
	r, err := src.Open(pipesName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var found []byte
	err = eachEntry(r, pipesMagic, func(b []byte) error {
		var m pipedata.PipeDataEntry
		if err := proto.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		to := io.Discard
		var content strings.Builder
		if m.GetPipeId() == uint32(id) {
			to = &content
		}
		if _, err := io.CopyN(to, r, int64(m.GetBytes())); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		if content.Len() > 0 {
			found = []byte(content.String())
		}
		return nil
	})
	return found, err
}

// Programs reserve addresses by mapping them without the right to write: MariaDB does so by the
// terabyte. The kernel counts them as memory only once they may be written to. CRIU, however, maps
// them writable first, and then the kernel may refuse more than the node has (vm.overcommit_memory
// 0 or 2). So these mappings are restored with MAP_NORESERVE.
const (
	mmPrefix = "mm-"
	mmMagic  = 0x57492820 // criu/include/magic.h

	// maxMaps bounds the image: 65530 mappings (vm.max_map_count) are 5 MiB.
	maxMaps = 64 << 20
)

// clearReserved returns the image of a process's mappings that criu is to restore, and the size of the image before.
func clearReserved(in io.Reader) (*bytes.Reader, int64, error) {
	m, b, err := readMaps(in)
	if err != nil {
		return nil, 0, err
	}
	const private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	for _, v := range m.GetVmas() {
		if v.GetFlags()&private == private && v.GetProt()&unix.PROT_WRITE == 0 {
			flags := v.GetFlags() | unix.MAP_NORESERVE
			v.Flags = &flags
		}
	}
	body, err := proto.Marshal(m)
	if err != nil {
		return nil, 0, err
	}
	out := binary.LittleEndian.AppendUint32(b[:8:8], uint32(len(body)))
	return bytes.NewReader(append(out, body...)), int64(len(b)), nil
}

// readMaps reads an image of a process's mappings, and returns its bytes as well.
func readMaps(in io.Reader) (*mm.MmEntry, []byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxMaps+1))
	if err != nil {
		return nil, nil, err
	}
	const head = 12
	if len(b) < head || len(b) > maxMaps || binary.LittleEndian.Uint32(b) != commonMagic || binary.LittleEndian.Uint32(b[4:]) != mmMagic ||
		int64(binary.LittleEndian.Uint32(b[8:])) != int64(len(b)-head) {
		return nil, nil, fmt.Errorf("%w: not one of mappings", errImage)
	}
	var m mm.MmEntry
	if err := proto.Unmarshal(b[head:], &m); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errImage, err)
	}
	return &m, b, nil
}

// isMaps tells whether an image is of a process's mappings.
func isMaps(name string) bool { return strings.HasPrefix(name, mmPrefix) }
