package cli

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// composeService is what a service of deploy/compose.yaml may have.
type composeService struct {
	Build struct {
		Context    string
		Dockerfile string
	}
	Image       string
	Command     []string
	Environment map[string]string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test        []string
		Interval    string
		Timeout     string
		StartPeriod string `yaml:"start_period"`
		Retries     int
	}
	Restart         string
	StopGracePeriod string   `yaml:"stop_grace_period"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	ShmSize         string   `yaml:"shm_size"`
	Ports           []string
	Volumes         []string
}

func readDeployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestComposeFileRunsServersThatExist holds deploy/compose.yaml against the flags and
// settings of the program, and its parts against one another.
func TestComposeFileRunsServersThatExist(t *testing.T) {
	t.Parallel()
	var file struct {
		Name     string
		Writ     any `yaml:"x-writ"`
		Services map[string]composeService
		Volumes  map[string]any
	}
	if err := yaml.UnmarshalWithOptions([]byte(readDeployed(t, "compose.yaml")), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	servers, volumes := 0, map[string]string{}
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := file.Volumes[volume]; !ok || volumes[volume] != "" {
				t.Errorf("%s: the volume %s is not declared, or also that of %q", name, volume, volumes[volume])
			}
			volumes[volume] = name
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: the port %s is open to others", name, p)
			}
		}
		if s.Image != "writ" {
			continue
		}
		servers++
		a := &app{}
		c, args, err := a.root().Find(s.Command)
		if err != nil || c.Name() != "serve" {
			t.Fatalf("%s: the command is %v: %v", name, s.Command, err)
		}
		if err := c.ParseFlags(args); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		names := serveNames(c)
		for variable := range s.Environment {
			if strings.HasPrefix(variable, "WRIT_") && !slices.ContainsFunc(names, func(n string) bool { return settingVariable(n) == variable }) {
				t.Errorf("%s: writ serve knows no %s", name, variable)
			}
		}
		if err := readSettings(c.Flags(), names, "", func(v string) string { return s.Environment[v] }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		grace, err := c.Flags().GetDuration("grace")
		if stop, err2 := time.ParseDuration(s.StopGracePeriod); err != nil || err2 != nil || stop <= grace {
			t.Errorf("%s is killed after %s, and its requests have %s to finish", name, s.StopGracePeriod, grace)
		}
		if s.Healthcheck.Test[0] != "CMD" || s.Healthcheck.Test[1] != "/writ" {
			t.Fatalf("%s: the health check runs %v", name, s.Healthcheck.Test)
		}
		check, args, err := a.root().Find(s.Healthcheck.Test[2:])
		if err == nil {
			err = check.ParseFlags(args)
		}
		if err != nil || !check.Runnable() {
			t.Errorf("%s: the health check: %v", name, err)
		}
		at, err := url.Parse(c.Flag("jobs-db").Value.String())
		if err != nil {
			t.Fatal(err)
		}
		db, ok := file.Services[at.Hostname()]
		if !ok || s.DependsOn[at.Hostname()].Condition != "service_healthy" {
			t.Fatalf("%s: the database is at %q, which is no service that it waits for", name, at.Hostname())
		}
		e := db.Environment
		if at.User.Username() != e["POSTGRES_USER"] || strings.Trim(at.Path, "/") != e["POSTGRES_DB"] || s.Environment["PGPASSWORD"] != e["POSTGRES_PASSWORD"] {
			t.Errorf("%s: its database is %s, and %s has %v", name, at, at.Hostname(), e)
		}
		if s.Build.Context != ".." || s.Build.Dockerfile != "deploy/Dockerfile" {
			t.Errorf("%s is built from %+v", name, s.Build)
		}
	}
	if servers < 2 {
		t.Errorf("the compose file has %d servers", servers)
	}
}

// TestDockerfileBuildsTheProgram holds deploy/Dockerfile against the module.
func TestDockerfileBuildsTheProgram(t *testing.T) {
	t.Parallel()
	text := readDeployed(t, "Dockerfile")
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)[1]
	for _, line := range []string{
		"FROM golang:" + string(version) + " AS build",
		"FROM scratch",
		"COPY --from=build /out/writ /writ",
		`ENTRYPOINT ["/writ"]`,
	} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("the Dockerfile has no line %s", line)
		}
	}
	build := regexp.MustCompile(`(?m)^RUN CGO_ENABLED=0 go build .*-o /out/writ (\S+)$`).FindStringSubmatch(text)
	if build == nil {
		t.Fatal("the Dockerfile does not build the program")
	}
	if _, err := os.Stat(filepath.Join("..", "..", build[1], "main.go")); err != nil {
		t.Error(err)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(text)
	if user == nil {
		t.Fatal("the Dockerfile names no user by number")
	}
	if uid, err := strconv.Atoi(user[1]); err != nil || uid == 0 || !strings.Contains(text, "--chown="+user[1]+":"+user[2]+" /out/data /data") {
		t.Errorf("the program runs as %s, to whom /data does not belong", user[1])
	}
	var command []string
	if err := json.Unmarshal([]byte(regexp.MustCompile(`(?m)^CMD (.*)$`).FindStringSubmatch(text)[1]), &command); err != nil {
		t.Fatal(err)
	}
	if c, _, err := (&app{}).root().Find(command); err != nil || c.Name() != "serve" {
		t.Errorf("the command is %v: %v", command, err)
	}
	for _, m := range regexp.MustCompile(`(WRIT_[A-Z_]+)=`).FindAllStringSubmatch(text, -1) {
		c, _, err := (&app{}).root().Find(command)
		if err != nil || !slices.ContainsFunc(serveNames(c), func(n string) bool { return settingVariable(n) == m[1] }) {
			t.Errorf("writ serve knows no %s", m[1])
		}
	}
}
