/** The SQS of the benchmark, in a process of its own. It ends with the process that started it. */
import { startSqs } from '../../tools/sqs.ts'

const { config } = await startSqs()
process.send!(config)
process.on('disconnect', () => process.exit())
