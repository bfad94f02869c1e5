extension Gauntlet {
    /// The seeds of worlds that once failed, each with the cause of the failure.
    package static let formerFailures: [UInt64] = [
        // The check after the push did not wait for a device that was restarting.
        529, 659,
        // A report had the chunk length of the last link instead of the longest chunk length.
        19177,
        // The last answer of an SMP upload was lost, and the host sent the image again and again. A timer of the device was lost.
        10,
        // The first packet of an SMP upload was too long for the link.
        54,
        // The virtual SMP server programmed zero bytes, and the flash model counted that as wear.
        1012,
        // Three answers of a dozen values each arrived with gaps. The referee did not accept the reported error for this world.
        15000, 18520,
        // An SMP device held a complete but damaged upload, and every later push continued it at its end.
        77_019_608, 77_277_048, 77_284_952, 77_287_056,
        // BEGIN's answer had a false sequence number, so the device stored a later chunk as the first one. An error of the referee.
        77_054_337, 77_144_267, 77_196_895,
        // A window of one chunk, and more than 20 consecutive chunks were lost. The host ended the push and reported a fault of the device.
        77_132_557, 77_138_315,
        // The key of the server's verdict was corrupted, so no client recognised it. An error of the referee.
        77_125_764,
        // A device restarted at 96 % of the image, and a tenth of its answers were late. It needed more than 64 rewinds to return to 96 %.
        20_000_020_348,
        // Three power cuts followed a confirmation, and the referee checked while the device restarted. An error of the referee.
        20_000_060_949,
        // Four power cuts were still pending after the faults, and each stopped one of the four clients. An error of the referee.
        20_000_152_610,
        // The host had not asked a device whether it needs each packet in one value. It sent a mark in several values over a short link.
        9_000_107_452,
        // Random bytes had the meaning "the flash failed". An error of the referee.
        31_001_145_215,
        // The power failed while the device handled a chunk, and the virtual device ran without power until the chunk's time ended.
        321,
        // A device had a queue of one chunk and a window of 2047. The host learned the smaller window again on each link.
        29_906_569_443_019, 29_906_569_455_559,
        // Losses in a row hid the bootloader's mode: a loader was taken for an application, and an application for an old device.
        214_984_060_593_636, 214_984_060_595_238,
    ]
}
