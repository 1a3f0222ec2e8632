// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/mm"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

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

// clearReserved returns an image of a process's mappings as it is to be restored, and the size of the
// image before.
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

// isMaps says whether an image is of a process's mappings.
func isMaps(name string) bool { return strings.HasPrefix(name, mmPrefix) }
