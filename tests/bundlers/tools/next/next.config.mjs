export default { output: process.env.NEXT_OUTPUT };
