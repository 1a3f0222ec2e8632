// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxReason is the greatest length in bytes of a request's reason, in both contracts: a reason fits into a line of a
// table.
const MaxReason = 200

// CheckReason returns an error, without a kind, unless s can be the reason of a request: a line of at most MaxReason
// bytes without control characters, because people see the text on terminals.
func CheckReason(s string) error {
	if len(s) > MaxReason || !utf8.ValidString(s) {
		return fmt.Errorf("reason: want text of at most %d bytes", MaxReason)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("reason: want one line without control characters, found %q", r)
		}
	}
	return nil
}
