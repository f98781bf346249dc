// Makes the calls on standard input with OpenAI's client and prints what each came to, as JSON.
import fs from "node:fs";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const told = [];
for (const { endpoint, file, fields } of JSON.parse(fs.readFileSync(0, "utf8"))) {
  try {
    let answer = await client.audio[endpoint].create({ file: fs.createReadStream(file), ...fields });
    if (answer[Symbol.asyncIterator]) {
      const events = [];
      for await (const event of answer) events.push(event);
      answer = events;
    }
    told.push({ answer });
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    told.push({ refused: { status: error.status, code: error.code, param: error.param } });
  }
}
process.stdout.write(JSON.stringify(told));
