// What every client script shares: orders come as JSON lines, answers go as JSON lines; the same
// orders as in ../orders.py. NODE_PACKAGES is the folder whose node_modules holds the packages.

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const packages = pathToFileURL(`${process.env.NODE_PACKAGES}/`).href;

export const load = (name) => import(import.meta.resolve(name, packages));

export const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Carry out one order after the other; true when the next connection is wanted. */
export async function obey(handlers) {
    for (;;) {
        const line = await lines.next();
        const order = line.done ? { do: 'end' } : JSON.parse(line.value);
        if (order.do === 'end') return false;
        if (order.do === 'reconnect') return true;
        try {
            say({ ok: await handlers[order.do](order) });
        } catch (error) {
            say({ error: String(error) });
        }
    }
}

/** Remembers that the tool list changed. */
export class Changes {
    #seen = false;
    #waiting = null;

    note() {
        this.#seen = true;
        this.#waiting?.();
    }

    async wait(order) {
        if (!this.#seen) {
            await new Promise((resolve, reject) => {
                this.#waiting = resolve;
                setTimeout(() => reject(new Error('no change was heard of')), order.within_s * 1000);
            });
        }
        this.#seen = false;
        return true;
    }
}

/** Who is asked by the client: says always the same, and remembers what was asked. */
export class Person {
    #says = { action: 'decline' };
    #asked = [];

    asked(message) {
        this.#asked.push(message);
        return this.#says;
    }

    told(order) {
        const asked = this.#asked;
        this.#says = order.says;
        this.#asked = [];
        return asked;
    }
}

/** Abort a call in mid-flight the way a program does: by its signal. */
export async function givenUp(start, order) {
    const abort = new AbortController();
    let ended = '';
    const call = start(abort.signal).then(
        (result) => (ended = `it had ended: ${JSON.stringify(result)}`),
        () => (ended = 'cancelled'),
    );
    const pause = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));
    await Promise.race([call, pause(order.after_s)]);
    abort.abort();
    await Promise.race([call, pause(5)]);
    return ended || 'still running';
}

/** The handlers of one connected client; both generations of the SDK call these alike. */
export function handlersOf({ list, call, changes, person }) {
    const told = (result) => ({ is_error: Boolean(result.isError), text: result.content[0].text });
    return {
        list,
        call: async (order) => told(await call(order, {})),
        progress: async (order) => {
            const seen = [];
            const onprogress = ({ progress, message }) => seen.push([progress, message]);
            const result = await call(order, { onprogress });
            return { progress: seen, text: result.content[0].text };
        },
        cancel: (order) => givenUp((signal) => call(order, { signal }), order),
        wait_list_changed: (order) => changes.wait(order),
        person: async (order) => person.told(order),
    };
}
