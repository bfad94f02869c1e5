/// How a device's bootloader changes images (Zephyr, `smp_group_0.rst`).
package enum SMPBootloaderMode: Int, Sendable {
    case singleSlot = 0
    case swapWithScratch
    /// The new image takes the old one's place: there is no way back.
    case overwrite
    case swap
    case directXIP
    case directXIPWithRevert
    case loadToRAM
    case firmwareLoader
}
