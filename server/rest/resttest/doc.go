// Package resttest serves a Jobs over HTTP for tests, holds every answer against
// the OpenAPI document, and has a Jobs that only records.
package resttest
