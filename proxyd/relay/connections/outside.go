// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// causeOf returns the cause that a program gets for an error of connect().
func causeOf(err error) stream.Cause {
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return stream.CauseRefused
	case errors.Is(err, unix.EHOSTUNREACH):
		return stream.CauseHost
	case errors.Is(err, unix.ENETUNREACH):
		return stream.CauseNetwork
	}
	if timed, ok := errors.AsType[net.Error](err); ok && timed.Timeout() {
		return stream.CauseTime
	}
	return stream.CauseProhibited // the relay has no ports or no descriptors left, or a firewall of its host forbids it
}

// copyFromOutside reads the bytes that the other side sends.
func copyFromOutside(ctx context.Context, k *connection, socket *net.TCPConn) error {
	buf := make([]byte, stream.MaxData)
	for {
		room := 0
		err := k.stream.Wait(ctx, func(e *stream.End) bool {
			room = e.Room()
			return room > 0
		})
		if err != nil {
			return err
		}
		n, err := socket.Read(buf[:min(len(buf), room)])
		ended := isEnd(err)
		k.stream.Do(func(e *stream.End) bool {
			if e.Write(buf[:n]); ended {
				e.CloseWrite()
			}
			return true
		})
		if ended {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the other side: %w", err)
		}
	}
}

// copyToOutside writes the bytes that have come from the program.
func copyToOutside(ctx context.Context, k *connection, socket *net.TCPConn) error {
	buf := make([]byte, stream.MaxData)
	for {
		n, ends := 0, false
		err := k.stream.Wait(ctx, func(e *stream.End) bool {
			b, inEnd := e.Inbox()
			n, ends = copy(buf, b), inEnd && len(b) == 0
			return n > 0 || ends
		})
		if err != nil {
			return err
		}
		if ends {
			return socket.CloseWrite()
		}
		if _, err := socket.Write(buf[:n]); err != nil {
			return fmt.Errorf("the other side: %w", err)
		}
		k.stream.Do(func(e *stream.End) bool {
			e.Consume(n)
			return true
		})
	}
}
