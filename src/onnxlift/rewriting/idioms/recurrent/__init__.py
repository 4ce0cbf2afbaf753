"""LSTM, GRU and RNN: layers, directions, cells, and layers that an exporter unrolled."""
