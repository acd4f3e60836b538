// An agent submits jobs through a Writ server as tasks and follows them to their end,
// with the official TypeScript client and its package of the tasks extension. A second
// agent claims and commits them.
//
//   node task.mjs http://127.0.0.1:7878/mcp TOKEN

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';

const [url, token] = process.argv.slice(2);
const protocolVersion = '2026-07-28';
const clientInfo = { name: 'writ-test', version: '1' };
const authorization = `Bearer ${token}`;

async function connect() {
	const client = new Client(clientInfo, { versionNegotiation: { mode: { pin: protocolVersion } } });
	await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: authorization } } }));
	return client;
}

// dispatch sends a message of the extension, which the client itself does not know.
let id = 0;
const names = [];
async function dispatch({ method, params }, { signal } = {}) {
	const name = params.name ?? params.taskId;
	const response = await fetch(url, {
		method: 'POST', signal,
		headers: {
			Authorization: authorization, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
			'Mcp-Protocol-Version': protocolVersion, 'Mcp-Method': method, 'Mcp-Name': name,
		},
		body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
	});
	names.push(method);
	return response.json();
}

const client = await connect();
const worker = await connect();
const session = createTaskSessionFromClient(client, {
	endpointId: url, rawDispatch: dispatch, v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities: {} },
});

async function work(tool, input) {
	const answer = await worker.callTool({ name: tool, arguments: input });
	assert.ok(!answer.isError, JSON.stringify(answer));
	return answer.structuredContent;
}

async function submit() {
	const key = randomUUID();
	return session.callTool('job_submit', { max_attempts: 1, request: {
		request_id: key, idempotency_key: key, operation: 'build', repository_id: 'tasks', base_ref: 'main',
		base_sha: 'a'.repeat(40), owner_id: 'tester', session_id: 's', tenant_id: 'local',
	} });
}

async function commit(job_id, end) {
	const { claim } = await work('work_claim', { job_id, worker: 'w' });
	await work('work_commit', { job_id, claim, ...end });
}

for (const [outcome, end] of Object.entries({
	succeeded: { outcome: 'succeeded', result_ref: 'artifact:1' },
	failed: { outcome: 'failed', failure_class: 'validation_failed', retryable: false },
	'dead-letter': { outcome: 'failed', error_ref: 'log:1' },
})) {
	const execution = await submit();
	assert.equal(execution.kind, 'task');
	const { taskId } = execution.handle;
	let states = [];
	const settled = execution.settle({ onEvent: e => { if (e.type === 'task') states.push(e.task.statusMessage); } });
	await commit(taskId, end);
	const result = resultFromTaskOutcome((await settled).outcome);
	assert.equal(result.isError ?? false, outcome !== 'succeeded');
	assert.equal(result.structuredContent.state, outcome);
	assert.equal(result.structuredContent.result_ref, end.result_ref ?? null);
	assert.equal(result.structuredContent.job_id, taskId);
	console.log(`task: submitted, ${states.join(', ')}`);
}

const execution = await submit();
await execution.cancel();
const { outcome } = await execution.settle();
assert.equal(outcome.status, 'cancelled');
assert.ok(names.includes('tasks/get') && names.includes('tasks/cancel'));
console.log('task: submitted and cancelled');

await session.close();
await client.close();
await worker.close();
