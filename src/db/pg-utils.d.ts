declare module 'pg/lib/utils.js' {
  const utils: {
    /** A parameter as the driver sends it: text, or bytes. */
    prepareValue(value: unknown): string | Buffer | null
  }
  export default utils
}
