// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"encoding/binary"
	"errors"
	"fmt"

	streamer "github.com/checkpoint-restore/go-criu/v7/crit/images/img-streamer"
	"google.golang.org/protobuf/proto"
)

// Messages on criu's streamer socket, a byte stream:
//
//	criu: length (u32 of the host), ImgStreamerRequestEntry   an image's name
//	us:   length,                   ImgStreamerReplyEntry     restore only: is there one?
//	criu: one byte, with a pipe's descriptor                  restore: only if there is
//
// requestParser takes the stream apart and is pure: received bytes and descriptors go in, requests and pipes come out.
type requestParser struct {
	bytes []byte
	fds   []int
}

// maxRequest is far above a name's length.
const maxRequest = 8 << 10

func (h *requestParser) addBytes(b []byte, fds []int) {
	h.bytes = append(h.bytes, b...)
	h.fds = append(h.fds, fds...)
}

var errGarbled = errors.New("criu's streamer socket: not understood")

// nextName takes the next request off. ok is false if the request is not whole yet.
func (h *requestParser) nextName() (name string, ok bool, err error) {
	if len(h.bytes) < 4 {
		return "", false, nil
	}
	n := binary.NativeEndian.Uint32(h.bytes)
	if n > maxRequest {
		return "", false, fmt.Errorf("%w: a request of %d bytes", errGarbled, n)
	}
	if len(h.bytes) < 4+int(n) {
		return "", false, nil
	}
	var m streamer.ImgStreamerRequestEntry
	if err := proto.Unmarshal(h.bytes[4:4+n], &m); err != nil {
		return "", false, fmt.Errorf("%w: %w", errGarbled, err)
	}
	if !plainName(m.GetFilename()) {
		return "", false, fmt.Errorf("%w: image name %q", errGarbled, m.GetFilename())
	}
	h.bytes = h.bytes[4+n:]
	return m.GetFilename(), true, nil
}

// nextPipe takes the next descriptor off with its byte, for the caller to close. ok is false if the
// descriptor has not come yet.
func (h *requestParser) nextPipe() (fd int, ok bool, err error) {
	if len(h.bytes) == 0 {
		return -1, false, nil
	}
	if len(h.fds) == 0 {
		return -1, false, fmt.Errorf("%w: a byte without a descriptor", errGarbled)
	}
	fd = h.fds[0]
	h.bytes, h.fds = h.bytes[1:], h.fds[1:]
	return fd, true, nil
}

// replyTo tells whether there is an image.
func replyTo(exists bool) ([]byte, error) {
	b, err := proto.Marshal(&streamer.ImgStreamerReplyEntry{Exists: proto.Bool(exists)})
	if err != nil {
		return nil, err
	}
	return append(binary.NativeEndian.AppendUint32(nil, uint32(len(b))), b...), nil
}
