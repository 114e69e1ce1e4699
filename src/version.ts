/** Of this package. The registry of workers shows which version each one runs. */
export const VERSION = '0.0.0'
