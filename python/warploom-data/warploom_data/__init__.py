"""The measurements that warploom's profiles, tables and figures come from: a folder for each GPU.

warploom finds them here. There is nothing to call.
"""
