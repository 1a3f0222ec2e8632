// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"errors"
	"io"
	"log/slog"
)

// Log is the level and the form of a daemon's log. LogLevel and LogFormat set its fields.
type Log struct {
	Level slog.Level
	JSON  bool
}

// NewLogger returns a logger that writes to w: for a daemon standard error, which for a service goes to the journal of
// the machine.
func (l Log) NewLogger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.Level}
	if l.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// LogLevel returns a Key.Set for the lowest level that is logged.
func LogLevel[C any](field func(*C) *Log) func(*C, string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	return func(c *C, value string) error {
		level, ok := levels[value]
		if !ok {
			return errors.New("debug, info, warn or error")
		}
		field(c).Level = level
		return nil
	}
}

// LogFormat returns a Key.Set for the form of log lines: text or json.
func LogFormat[C any](field func(*C) *Log) func(*C, string) error {
	return func(c *C, value string) error {
		if value != "text" && value != "json" {
			return errors.New("text or json")
		}
		field(c).JSON = value == "json"
		return nil
	}
}
