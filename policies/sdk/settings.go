// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Settings reads a policy's settings into a struct. A key that the struct lacks is an error, and
// so is anything after the object. Without an object the struct keeps its defaults.
func Settings(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("settings: more than one object")
	}
	return nil
}

// Span is a duration in settings: "90s", "10m".
type Span time.Duration

// UnmarshalJSON reads a Span.
func (s *Span) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s: a span is text like \"90s\" or \"10m\"", data)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q: a span is like \"90s\" or \"10m\"", text)
	}
	*s = Span(d)
	return nil
}
