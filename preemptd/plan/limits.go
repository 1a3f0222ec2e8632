// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/singularity-slurm/singularity-slurm/policies/sdk"

// limits counts the GPUs that accounts and QOS with a limit hold.
type limits struct {
	account, qos map[string]*limit
}

type limit struct{ used, most int }

func newLimits(s *sdk.Snapshot) limits {
	l := limits{map[string]*limit{}, map[string]*limit{}}
	for _, a := range s.Accounts {
		if a.MaxGPUs > 0 {
			l.account[a.Name] = &limit{most: a.MaxGPUs}
		}
	}
	for _, q := range s.QOS {
		if q.MaxGPUs > 0 {
			l.qos[q.Name] = &limit{most: q.MaxGPUs}
		}
	}
	for i := range s.Jobs {
		l.addGPUs(&s.Jobs[i], gpusHeld(&s.Jobs[i]))
	}
	return l
}

// addGPUs counts GPUs that a job gets, or gives back if the number is negative.
func (l limits) addGPUs(j *sdk.Job, gpus int) {
	if a := l.account[j.Account]; a != nil {
		a.used += gpus
	}
	if q := l.qos[j.QOS]; q != nil {
		q.used += gpus
	}
}

// allowGPUs says whether the job may hold so many GPUs more.
func (l limits) allowGPUs(j *sdk.Job, more int) *violation {
	if more <= 0 {
		return nil
	}
	if a := l.account[j.Account]; a != nil && a.used+more > a.most {
		return breakInvariant(Limit, "account %s holds %d of %s", j.Account, a.used, sdk.CountOf(a.most, "GPU"))
	}
	if q := l.qos[j.QOS]; q != nil && q.used+more > q.most {
		return breakInvariant(Limit, "QOS %s holds %d of %s", j.QOS, q.used, sdk.CountOf(q.most, "GPU"))
	}
	return nil
}
