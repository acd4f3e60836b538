package server

import (
	"context"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/writ-authority/writ/workitem"
)

// metrics are the server's own registry. It is the workitem.Observer of its
// authority. No metric has a tenant, a subject or an id as a label.
type metrics struct {
	registry *prometheus.Registry
	counters [workitem.Counters]prometheus.Counter

	batch, run, sync prometheus.Histogram

	requests *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	inFlight prometheus.Gauge
}

// counted says how a counter of the authority is shown: the name of the metric and
// the value of its label, if it has one.
var counted = [workitem.Counters]struct{ metric, help, label, value string }{
	workitem.SubmittedNew:       {"writ_submissions_total", submissionsHelp, "result", "new"},
	workitem.SubmittedDuplicate: {"writ_submissions_total", submissionsHelp, "result", "duplicate"},
	workitem.SubmittedConflict:  {"writ_submissions_total", submissionsHelp, "result", "conflict"},
	workitem.ClaimGranted:       {"writ_claims_total", claimsHelp, "result", "granted"},
	workitem.ClaimReplayed:      {"writ_claims_total", claimsHelp, "result", "replayed"},
	workitem.ClaimEmpty:         {"writ_claims_total", claimsHelp, "result", "empty"},
	workitem.ClaimQuota:         {"writ_claims_total", claimsHelp, "result", "tenant_quota"},
	workitem.ClaimConsent:       {"writ_claims_total", claimsHelp, "result", "consent_denied"},
	workitem.LeaseExpired:       {metric: "writ_leases_expired_total", help: "Leases that were found to have run out, once each."},
	workitem.LeaseRenewed:       {metric: "writ_leases_renewed_total", help: "Heartbeats and checkpoints that renewed a lease."},
	workitem.FencedRefusal:      {metric: "writ_fenced_refusals_total", help: "Calls of workers that the fence refused."},
	workitem.CommitSucceeded:    {"writ_commits_total", commitsHelp, "status", "succeeded"},
	workitem.CommitFailed:       {"writ_commits_total", commitsHelp, "status", "failed"},
	workitem.CommitCancelled:    {"writ_commits_total", commitsHelp, "status", "cancelled"},
	workitem.CommitRetry:        {"writ_commits_total", commitsHelp, "status", "retry_scheduled"},
	workitem.CommitDeadLetter:   {"writ_commits_total", commitsHelp, "status", "dead_letter"},
	workitem.CommitNoop:         {"writ_commits_total", commitsHelp, "status", "noop"},
	workitem.JobCancelled:       {metric: "writ_jobs_cancelled_total", help: "Jobs that were cancelled."},
	workitem.JobDeferred:        {metric: "writ_jobs_deferred_total", help: "Leases that were given back."},
	workitem.Repaired:           {metric: "writ_reconcile_repaired_total", help: "Jobs that a reconciliation mended."},
	workitem.Faulty:             {metric: "writ_reconcile_faults_total", help: "Jobs that a reconciliation set aside as faulty."},
	workitem.CorruptRow:         {metric: "writ_corrupt_rows_total", help: "Rows that were left out of a listing because they can't be read."},
}

const (
	submissionsHelp = "Submissions by what became of them."
	claimsHelp      = "Claims by what became of them."
	commitsHelp     = "Ends of attempts by how they ended; dead_letter has exhausted leases too."
)

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	vectors := map[string]*prometheus.CounterVec{}
	for c, d := range counted {
		if d.label == "" {
			m.counters[c] = prometheus.NewCounter(prometheus.CounterOpts{Name: d.metric, Help: d.help})
			m.registry.MustRegister(m.counters[c])
			continue
		}
		v := vectors[d.metric]
		if v == nil {
			v = prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.metric, Help: d.help}, []string{d.label})
			vectors[d.metric] = v
			m.registry.MustRegister(v)
		}
		m.counters[c] = v.WithLabelValues(d.value)
	}
	m.batch = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "writ_store_batch_size", Help: "Mutations in one durable transaction.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	})
	m.run = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "writ_store_run_seconds", Help: "How long the mutations of one transaction ran.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 11),
	})
	m.sync = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "writ_store_sync_seconds", Help: "How long the disk took to make one transaction durable.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 11),
	})
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "writ_http_request_seconds", Help: "How long requests took, by route and status.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 13),
	}, []string{"method", "route", "status"})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "writ_http_refused_total", Help: "Requests and connections refused because a limit was reached.",
	}, []string{"limit"})
	for _, limit := range []string{limitRequests, limitConnection, limitConnections} {
		m.refused.WithLabelValues(limit)
	}
	m.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "writ_http_requests_in_flight", Help: "Requests that run now, long polls included.",
	})
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "writ_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: buildLabels(),
	}, func() float64 { return 1 })
	m.registry.MustRegister(m.batch, m.run, m.sync, m.requests, m.refused, m.inFlight, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func buildLabels() prometheus.Labels {
	version, language := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, language = info.Main.Version, info.GoVersion
	}
	return prometheus.Labels{"version": version, "go": language}
}

// Count implements workitem.Observer.
func (m *metrics) Count(c workitem.Counter, n int) { m.counters[c].Add(float64(n)) }

// Batch implements workitem.Observer.
func (m *metrics) Batch(size int, run, sync time.Duration) {
	m.batch.Observe(float64(size))
	m.run.Observe(run.Seconds())
	m.sync.Observe(sync.Seconds())
}

// request reports one request.
func (m *metrics) request(method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(method, route, statusText(status)).Observe(took.Seconds())
}

// statusText is strconv.Itoa without an allocation for what is usual.
func statusText(status int) string {
	switch status {
	case http.StatusOK:
		return "200"
	case http.StatusCreated:
		return "201"
	}
	return strconv.Itoa(status)
}

// handler serves the registry. One scrape at a time is answered.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second})
}

// gaugePause is how long a reading of the store counts for scrapes.
const gaugePause = 2 * time.Second

// gauges reads the store when it is scraped.
type gauges struct {
	read   func(context.Context) (totals, error)
	health func() error
	now    func() time.Time

	mu   sync.Mutex // one scrape reads, others wait for what it finds
	last totals
	err  error
	at   time.Time
}

var (
	descOldest    = prometheus.NewDesc("writ_oldest_ready_age_seconds", "Age of the oldest job that could be claimed now; 0 if there is none.", nil, nil)
	descLeases    = prometheus.NewDesc("writ_live_leases", "Leases that have not run out.", nil, nil)
	descJobs      = prometheus.NewDesc("writ_jobs", "Jobs by kind and state.", []string{"kind", "state"}, nil)
	descClaimable = prometheus.NewDesc("writ_claimable_jobs", "Jobs that could be claimed now, apart from quotas, by kind.", []string{"kind"}, nil)
	descFaulty    = prometheus.NewDesc("writ_faulty_jobs", "Jobs that are set aside because they contradict their dependencies.", nil, nil)
	descReadable  = prometheus.NewDesc("writ_store_readable", "1 if the job store could be read for this scrape, else 0.", nil, nil)
	descWritable  = prometheus.NewDesc("writ_store_writable", "1 if the job store takes writes, else 0.", nil, nil)
)

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descOldest, descLeases, descJobs, descClaimable, descFaulty, descReadable, descWritable} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What can't be read is left out, never
// shown as 0.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	writable := 1.0
	if g.health() != nil {
		writable = 0
	}
	gauge(descWritable, writable)
	found, err := g.reading()
	if err != nil {
		gauge(descReadable, 0)
		return
	}
	gauge(descReadable, 1)
	gauge(descOldest, found.OldestReadyAge)
	gauge(descLeases, float64(found.LiveLeases))
	gauge(descFaulty, float64(found.Faults))
	for _, k := range found.Kinds {
		gauge(descClaimable, float64(k.Claimable), k.Kind)
		for state, n := range k.States {
			gauge(descJobs, float64(n), k.Kind, state)
		}
	}
}

func (g *gauges) reading() (totals, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); g.at.IsZero() || now.Sub(g.at) >= gaugePause {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		g.last, g.err = g.read(ctx)
		g.at = g.now()
	}
	return g.last, g.err
}
