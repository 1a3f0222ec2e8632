// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"fmt"
	"net"
)

// write sends frames until the link ends. It returns nil if it ended as it should.
func (l *link) write() error {
	var control, raw []byte
	for range l.wake {
		for {
			var m *message
			var buffers net.Buffers
			l.mu.Lock()
			if l.state == linkAborted {
				l.mu.Unlock()
				return l.writeAbort()
			}
			control, l.control = l.control, control[:0]
			if len(l.bulk) > 0 {
				m, l.bulk = l.bulk[0], l.bulk[1:]
			}
			leave := l.state == linkLeaving && m == nil
			l.mu.Unlock()
			if leave {
				control = header{kind: frameBye}.append(control)
			}
			if len(control) == 0 && m == nil {
				break
			}
			if len(control) > 0 {
				buffers = append(buffers, control)
			}
			if m != nil {
				n := min(m.size, maxFrame)
				raw = header{frameData, m.check, m.key, uint64(n)}.append(raw[:0])
				buffers = append(buffers, raw)
				for n > 0 {
					b := m.next(n)
					buffers = append(buffers, b)
					n -= len(b)
				}
			}
			if _, err := buffers.WriteTo(l.conn); err != nil {
				if m == nil && l.hasLeft() {
					return nil // credit is for nobody now
				}
				return fmt.Errorf("connection lost: %w", err)
			}
			if leave {
				return l.closeWrite()
			}
			l.written(m)
		}
	}
	return nil
}

// written puts a message back in line, or finishes it.
func (l *link) written(m *message) {
	switch {
	case m == nil:
	case m.size > 0:
		l.mu.Lock()
		l.bulk = append(l.bulk, m)
		l.mu.Unlock()
	default:
		m.finish()
	}
}

func (l *link) writeAbort() error {
	b := header{kind: frameAbort, size: uint64(len(l.reason))}.append(nil)
	_, err := l.conn.Write(append(b, l.reason...))
	return err
}

// closeWrite tells the other side that nothing more comes; what it still sends is read.
func (l *link) closeWrite() error {
	if half, can := l.conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}
