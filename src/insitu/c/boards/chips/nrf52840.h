/* nRF52840 on Nordic's development kit (PCA10056), never run: the debug probe's USB serial port is on P0.06 (sends) and
 * P0.08 (receives). The driver runs on QEMU's nRF51; its registers are compared with the nRF52840's SVD in a test.
 */
#define SEND_PORT 0u
#define SEND_PIN 6u
#define RECEIVE_PORT 0u
#define RECEIVE_PIN 8u
