// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// The messages over the two pipes between a daemon and its helper. A message is one frame or several; a frame is its
// kind, whether more of the message follows, a length, and bytes.
//
//	daemon                                helper
//	order, state, entries ──────────────►
//	                                      Record:
//	                             ◄──────  data …                 contents, one stream
//	                             ◄──────  result: a State
//	                                      PutBack:
//	                             ◄──────  wants                  parts of streams, in order
//	data … one for each want ───────────►
//	                             ◄──────  result: a Report
//	                             ◄──────  failure, at any time, and no frame after it
const (
	frameOrder   = 'o'
	frameState   = 's'
	frameEntries = 'e'
	frameData    = 'd'
	frameWants   = 'w'
	frameResult  = 'r'
	frameFailure = 'x'
)

const (
	maxFrame   = 1 << 20
	maxMessage = 1 << 30 // of a State of an older release
)

// pipe is an end of both pipes. A pipe may have a reader and a writer at the same time, and no other concurrent use.
type pipe struct {
	r    *bufio.Reader
	w    *bufio.Writer
	most int // bytes of a message that is received
}

func newPipe(r io.Reader, w io.Writer) *pipe {
	return &pipe{r: bufio.NewReaderSize(r, 256<<10), w: bufio.NewWriterSize(w, 256<<10), most: maxMessage}
}

// sendFrame sends a message; the message may stay in the buffer until flushFrames or the next receiveFrame.
func (p *pipe) sendFrame(kind byte, b []byte) error {
	for {
		part := b[:min(len(b), maxFrame)]
		b = b[len(part):]
		head := [6]byte{kind}
		if len(b) > 0 {
			head[1] = 1
		}
		binary.LittleEndian.PutUint32(head[2:], uint32(len(part)))
		if _, err := p.w.Write(head[:]); err != nil {
			return err
		}
		if _, err := p.w.Write(part); err != nil {
			return err
		}
		if len(b) == 0 {
			return nil
		}
	}
}

func (p *pipe) sendJSON(kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.sendFrame(kind, b)
}

// sendFailure sends the error for which the helper ends.
func (p *pipe) sendFailure(err error) error {
	return p.sendJSON(frameFailure, localsock.ToldError{Text: err.Error(), Errno: localsock.FindErrno(err)})
}

func (p *pipe) flushFrames() error { return p.w.Flush() }

// receiveFrame returns the next message. The content is not checked: every byte may be anything.
func (p *pipe) receiveFrame() (kind byte, b []byte, err error) {
	if err := p.flushFrames(); err != nil {
		return 0, nil, err
	}
	for {
		var head [6]byte
		if _, err := io.ReadFull(p.r, head[:]); err != nil {
			return 0, nil, err
		}
		n := int(binary.LittleEndian.Uint32(head[2:]))
		if n > maxFrame || head[1] > 1 || len(b) > 0 && head[0] != kind || len(b)+n > p.most {
			return 0, nil, errors.New("bad frame")
		}
		kind = head[0]
		at := len(b)
		b = append(b, make([]byte, n)...)
		if _, err := io.ReadFull(p.r, b[at:]); err != nil {
			return 0, nil, fmt.Errorf("frame: %w", err)
		}
		if head[1] == 0 {
			return kind, b, nil
		}
	}
}

// receiveMessage returns the next message, which must be of a kind.
func (p *pipe) receiveMessage(kind byte) ([]byte, error) {
	got, b, err := p.receiveFrame()
	if err != nil {
		return nil, err
	}
	if got != kind {
		return nil, fmt.Errorf("message %q where %q is due", got, kind)
	}
	return b, nil
}

// order tells the helper its task, and as which user to work.
type order struct {
	PutBack bool
	UID     uint32
	GID     uint32
	Groups  []uint32
	Exclude []Name
	Logs    []Name
	Left    bool   // PutBack: see Job
	Fixed   []Name // PutBack: see Job
	Lost    bool   // Record: the entries are not complete
	Mark    Mark   // Record
	Stream  string // Record: the name of the new stream
	Reuse   bool   // Record: old streams can be referred to
	Most    int    // Record: bytes that files and folders may take in the State

	MostXattrs  int // Record: bytes that extended attributes may take
	MostMissing int // Record: paths at which no file is
}

// wantedRange is a part of a stream that PutBack needs.
type wantedRange struct {
	Stream string
	Off    int64
	Size   int64
}
