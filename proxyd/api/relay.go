// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// relayProgress runs work and sends its progress, then its result. A reader that is slow, or gone,
// does not hold work up: of the reports that were not read yet, only the latest is kept.
func relayProgress(stream grpc.ServerStreamingServer[rpc.Progress], work func(progress func(*rpc.Progress)) (*rpc.Progress, error)) error {
	latest := make(chan *rpc.Progress, 1)
	var mu sync.Mutex // of the goroutines that write latest
	put := func(p *rpc.Progress) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-latest:
		default:
		}
		latest <- p
	}
	var result *rpc.Progress
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = work(put)
	}()
	for {
		select {
		case p := <-latest:
			// A failed send means that ctx has ended; work sees that too.
			_ = stream.Send(p)
		case <-done:
			select {
			case p := <-latest:
				_ = stream.Send(p)
			default:
			}
			if err != nil {
				return rpc.Status(err)
			}
			return stream.Send(result)
		}
	}
}

// pieceSize is the number of bytes in a message of an export.
const pieceSize = 1 << 20

// sender sends the files of an export.
type sender struct {
	stream grpc.ServerStreamingServer[rpc.ExportPiece]
	total  int64
	began  bool
}

var zeros [pieceSize]byte

// sendFile sends a file. Pieces of zeros are left out.
func (s *sender) sendFile(name string, size int64, content io.Reader) error {
	first := &rpc.ExportPiece{File: name, Size: size}
	if !s.began {
		s.began, first.Total = true, s.total
	}
	if err := s.stream.Send(first); err != nil {
		return err
	}
	var offset int64
	for {
		// A new buffer each time: gRPC may still hold the message of the last Send.
		data := make([]byte, pieceSize)
		n, err := io.ReadFull(content, data)
		if n > 0 && !bytes.Equal(data[:n], zeros[:n]) {
			if err := s.stream.Send(&rpc.ExportPiece{Offset: offset, Data: data[:n]}); err != nil {
				return err
			}
		}
		offset += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if offset != size {
				return fmt.Errorf("%w: file %s: %d bytes, %d expected", rpc.ErrDamaged, name, offset, size)
			}
			return nil
		case err != nil:
			return fmt.Errorf("file %s: %w", name, err)
		}
	}
}

// sharedCall gives all callers that ask at the same time the same answer.
type sharedCall[T any] struct {
	mu     sync.Mutex
	coming *sharedAnswer[T] // nil: no call is under way
}

type sharedAnswer[T any] struct {
	done  chan struct{} // closed when value is set
	value T
}

// freshAnswer returns the answer of the call of f that is under way, or else of a new call. f
// gets a context that does not end with ctx, because other callers may wait for the answer.
func (s *sharedCall[T]) freshAnswer(ctx context.Context, f func(context.Context) T) (T, error) {
	s.mu.Lock()
	answer := s.coming
	if answer == nil {
		answer = &sharedAnswer[T]{done: make(chan struct{})}
		s.coming = answer
		go func() {
			answer.value = f(context.WithoutCancel(ctx))
			s.mu.Lock()
			defer s.mu.Unlock()
			s.coming = nil
			close(answer.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-answer.done:
		return answer.value, nil
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
