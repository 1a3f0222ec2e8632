// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// buckets is the largest number of sections into which the course of a simulation is cut. As the simulation goes
// on, two sections become a single section.
const buckets = 512

// clusterSample counts computing GPUs and waiting jobs at a moment.
type clusterSample struct {
	busy    int            // GPUs that compute
	waiting [sdk.Tiers]int // jobs
}

// course is a simulation over time, as sums of its moments in sections of equal width.
type course struct {
	now      clusterSample
	at       int64
	width    int64 // milliseconds of a section
	sections []courseSection
}

// courseSection is the sum of the moments, each times the milliseconds that the moment lasted.
type courseSection struct {
	busy    int64
	waiting [sdk.Tiers]int64
}

func newCourse() course { return course{width: 1000} }

// advanceTo extends the last value of the course to the time when.
func (c *course) advanceTo(when int64) {
	for c.at < when {
		i := int(c.at / c.width)
		for i >= buckets {
			c.halveSections()
			i = int(c.at / c.width)
		}
		for len(c.sections) <= i {
			c.sections = append(c.sections, courseSection{})
		}
		end := min(when, int64(i+1)*c.width)
		c.sections[i].addMoment(c.now, end-c.at)
		c.at = end
	}
}

func (p *courseSection) addMoment(m clusterSample, ms int64) {
	p.busy += int64(m.busy) * ms
	for t, n := range m.waiting {
		p.waiting[t] += int64(n) * ms
	}
}

// halveSections makes a single section of two.
func (c *course) halveSections() {
	n := 0
	for i := 0; i < len(c.sections); i += 2 {
		sum := c.sections[i]
		if i+1 < len(c.sections) {
			sum.busy += c.sections[i+1].busy
			for t, w := range c.sections[i+1].waiting {
				sum.waiting[t] += w
			}
		}
		c.sections[n] = sum
		n++
	}
	c.sections = c.sections[:n]
	c.width *= 2
}

// Sample is the average of the moments in a part of the time.
type Sample struct {
	Start   time.Duration
	Busy    float64            // part of all GPUs that computed
	Waiting [sdk.Tiers]float64 // jobs
}

func (c *course) samplesOf(gpus int) []Sample {
	all := make([]Sample, len(c.sections))
	for i, p := range c.sections {
		start := int64(i) * c.width
		ms := float64(min(c.width, c.at-start))
		all[i] = Sample{Start: time.Duration(start) * time.Millisecond, Busy: float64(p.busy) / ms / float64(gpus)}
		for t, w := range p.waiting {
			all[i].Waiting[t] = float64(w) / ms
		}
	}
	return all
}
