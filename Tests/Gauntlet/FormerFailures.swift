extension Gauntlet {
    /// Seeds of worlds in which something was lost once, with what it was.
    package static let formerFailures: [UInt64] = [
        // The verdict did not wait for a device that was just restarting.
        529, 659,
        // A report named the last link's chunk length, and not the longest.
        19177,
        // An SMP upload's last answer was lost: all of it was sent again, over and over. A timer of the device was forgotten.
        10,
        // An SMP upload was opened with a packet that the link did not carry.
        54,
        // The virtual SMP server programmed nothing, and that wore the flash.
        1012,
        // Three answers of a dozen values each came with holes, and nothing in this world explained the reported reason.
        15000, 18520,
        // An SMP device held a complete but damaged upload, and every later push continued it at its end.
        77_019_608, 77_277_048, 77_284_952, 77_287_056,
        // A false sequence number in BEGIN's answer: the device took a later chunk for the first one. The referee's fault.
        77_054_337, 77_144_267, 77_196_895,
        // A window of one chunk, and more than 20 of them lost in a row: the host gave up and blamed the device.
        77_132_557, 77_138_315,
        // The key of the server's verdict was corrupted, so no client knew it. The referee's fault.
        77_125_764,
        // A device restarted at 96 % of the image, and a tenth of its answers came late: more than 64 rewinds until it was there again.
        20_000_020_348,
        // Three power cuts followed a confirmation, and the referee looked while the device restarted. The referee's fault.
        20_000_060_949,
        // Four power cuts were still due after the faults, and four clients met them. The referee's fault.
        20_000_152_610,
        // A device that needs each packet in one value, and was not asked for it, got a mark in pieces over a short link.
        9_000_107_452,
        // Random bytes reported that the flash failed. The referee's fault.
        31_001_145_215,
    ]
}
