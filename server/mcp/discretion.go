package mcp

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// quoting begins the errors in which the SDK repeats parameters that it could not read,
// all of them, before any middleware sees the request.
const quoting = "handling '"

// discreet is a message, or a batch of them, without such errors: no refusal shows values
// of a request (decision W7).
func discreet(text []byte) []byte {
	if !bytes.Contains(text, []byte(`"message":"`+quoting)) {
		return text
	}
	var all []jsontext.Value
	if text[0] != '[' || json.Unmarshal(text, &all) != nil {
		return discreetOne(text)
	}
	answers := make([][]byte, len(all))
	for i, one := range all {
		answers[i] = discreetOne(one)
	}
	return array(answers)
}

func discreetOne(text []byte) []byte {
	var m struct {
		ID    jsontext.Value `json:"id"`
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &m, jsontext.AllowDuplicateNames(true)) != nil || !strings.HasPrefix(m.Error.Message, quoting) {
		return text
	}
	return errorBody(m.ID, m.Error.Code, "the parameters are not what the method takes")
}

// discreetWriter writes answers to HTTP requests. The SDK writes each at once.
type discreetWriter struct{ http.ResponseWriter }

func (w discreetWriter) Write(text []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(discreet(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Unwrap is for http.ResponseController, with which streams are flushed.
func (w discreetWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
